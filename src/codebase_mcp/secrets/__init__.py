"""What is a secret, and how is it kept out of everything that is stored?"""
