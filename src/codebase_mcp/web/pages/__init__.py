"""The product as a browser sees it: pages made on the server, which work without JavaScript."""
