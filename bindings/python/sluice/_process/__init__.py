"""What the trainers' adapters share: how ranks meet, and how tensors go to and from the engine."""
