"""The model under the profiler: a Llama-style decoder whose computation all goes through `profiler.ops`."""
