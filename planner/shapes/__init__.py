"""What a model is: parameters, KV bytes, shares per rank."""
