"""How are results written for a reader, within a budget of characters?"""
