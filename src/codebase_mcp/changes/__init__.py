"""What differs between two states of a repository, and whom does it touch?"""
