#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "planted_bug.hpp"

namespace planted {

void check(cudaError_t code) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(code));
  std::exit(2);
}

Scene::Scene() {
  check(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  check(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  check(cudaEventCreateWithFlags(&other_event, cudaEventDisableTiming));
  for (int*& numbers : device) check(cudaMalloc(reinterpret_cast<void**>(&numbers), kBytes));
  for (int*& numbers : pinned) {
    check(cudaHostAlloc(reinterpret_cast<void**>(&numbers), kBytes, cudaHostAllocMapped));
    std::memset(numbers, 0, kBytes);
  }
}

Scene::~Scene() {
  static_cast<void>(cudaDeviceSynchronize());
  for (int* numbers : device) static_cast<void>(cudaFree(numbers));
  for (int* numbers : pinned) static_cast<void>(cudaFreeHost(numbers));
  static_cast<void>(cudaEventDestroy(event));
  static_cast<void>(cudaEventDestroy(other_event));
  static_cast<void>(cudaStreamDestroy(first));
  static_cast<void>(cudaStreamDestroy(second));
}

void Scene::order(cudaStream_t earlier, cudaStream_t later) const {
  check(cudaEventRecord(event, earlier));
  check(cudaStreamWaitEvent(later, event, 0));
}

void Scene::to_host(int* to, const int* from, cudaStream_t stream) const {
  check(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToHost, stream));
}

void Scene::to_device(int* to, const int* from, cudaStream_t stream) const {
  check(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyHostToDevice, stream));
}

}  // namespace planted
