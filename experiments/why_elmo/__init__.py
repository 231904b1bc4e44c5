"""Compare ELMo with what people would train instead, on the same text and for the same processor time."""
