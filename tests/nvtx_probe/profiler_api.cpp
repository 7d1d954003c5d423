/// The profiler control of a CUDA runtime library, which counts its calls.
extern "C" {
int sluice_profiler_starts = 0;
int sluice_profiler_stops = 0;

int cudaProfilerStart() {
  ++sluice_profiler_starts;
  return 0;
}
int cudaProfilerStop() {
  ++sluice_profiler_stops;
  return 0;
}
}
