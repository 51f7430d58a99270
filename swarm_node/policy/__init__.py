"""The model that a node trains: its weights, its tokenizer, its rows of tokens, and the memory it
takes.
"""
