"""What does a reader get, and what does it cost?"""
