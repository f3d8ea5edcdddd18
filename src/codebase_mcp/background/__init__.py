"""What goes on while nobody calls: jobs, and changes of files that are followed."""
