"""Which texts are secrets, and how are they kept out of everything that is stored?"""
