"""Small questions with shots: what a pre-trained model of 100 million parameters learns within
minutes.
"""
