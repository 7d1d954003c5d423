#include <fmt/format.h>

#include <vector>

#include "gpu/device_work.hpp"
#include "gpu/subjects.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/handles.hpp"

namespace sluice::microbench {
namespace {

constexpr std::uint32_t kWarmUp = 10;
constexpr std::uint32_t kPlace = 1;

/// A chain of kernels that do next to nothing, the last of which counts the place's end.
void enqueue_chain(DeviceWork& work, std::uint32_t nodes) {
  for (std::uint32_t node = 1; node < nodes; ++node) work.board().enqueue_start(kPlace, work.stream());
  work.board().enqueue_end(kPlace, work.stream());
}

cuda::GraphExec captured_chain(DeviceWork& work, std::uint32_t nodes) {
  cuda::check(cudaStreamBeginCapture(work.stream(), cudaStreamCaptureModeThreadLocal), "beginning a capture");
  enqueue_chain(work, nodes);
  cudaGraph_t captured = nullptr;
  cuda::check(cudaStreamEndCapture(work.stream(), &captured), "ending a capture");
  const cuda::Graph graph(captured);
  cudaGraphInstantiateParams parameters{};
  parameters.flags = cudaGraphInstantiateFlagUpload;
  parameters.uploadStream = work.stream();
  cudaGraphExec_t instantiated = nullptr;
  cuda::check(cudaGraphInstantiateWithParams(&instantiated, graph.get(), &parameters),
              "instantiating a graph");
  cuda::check(cudaStreamSynchronize(work.stream()), "uploading a graph");
  return cuda::GraphExec(instantiated);
}

/// The call alone, and from before it to the end seen by flag; the device is idle before.
struct LaunchTimes {
  std::vector<double> call_us;
  std::vector<double> end_us;
};

template <typename Launch>
LaunchTimes time_launches(DeviceWork& work, std::uint32_t times, const Launch& launch) {
  LaunchTimes taken;
  for (std::uint32_t i = 0; i < times + kWarmUp; ++i) {
    const Time before = work.now();
    launch();
    const Time launched = work.now();
    work.board().launched(kPlace);
    work.wait_for_flag(kPlace);
    const Time ended = work.now();
    if (i < kWarmUp) continue;
    taken.call_us.push_back(microseconds(launched - before));
    taken.end_us.push_back(microseconds(ended - before));
  }
  return taken;
}

}  // namespace

std::vector<Row> measure_graph_launch(const Effort& effort) {
  DeviceWork work;
  const std::uint32_t times = effort.times(2000, 20);
  std::vector<Row> rows;
  for (const std::uint32_t nodes : {1U, 20U, 200U}) {
    const cuda::GraphExec graph = captured_chain(work, nodes);
    const LaunchTimes graphs = time_launches(
        work, times, [&] { cuda::check(cudaGraphLaunch(graph.get(), work.stream()), "launching a graph"); });
    const LaunchTimes eager = time_launches(work, times, [&] { enqueue_chain(work, nodes); });
    Row call = median_row(fmt::format("launch call, graph of {} nodes", nodes), "us", graphs.call_us);
    call.reference_name = "the same kernels one by one";
    call.reference = spread_of(eager.call_us).median;
    rows.push_back(std::move(call));
    Row end = median_row(fmt::format("launch to end seen, graph of {} nodes", nodes), "us", graphs.end_us);
    end.reference_name = "the same kernels one by one";
    end.reference = spread_of(eager.end_us).median;
    rows.push_back(std::move(end));
  }
  return rows;
}

}  // namespace sluice::microbench
