"""Byte-level BPE of our own, one stage at a time, everything that happened kept. It is here to be looked at: the ids
that the model is fed come from models/tokenizer.py, and tests hold the two equal. Needs neither weights nor torch.
"""
