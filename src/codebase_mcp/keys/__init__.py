"""Which keys are there, and whose is this one?"""
