"""Attribution: what each kernel is, and which part of the model it belongs to."""
