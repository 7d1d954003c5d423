// A plug-in with a stage that does, as its arguments say, what cannot be captured, or not be counted.

#include <cuda_runtime_api.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/stage.hpp"
#include "sluice/graphs/plugin.hpp"

namespace {

namespace cuda = sluice::cuda;
namespace graphs = sluice::graphs;

constexpr std::size_t kBytes = 256;

class FaultyStage final : public cuda::Stage {
 public:
  FaultyStage(std::string fault, std::size_t saved_bytes)
      : fault_(std::move(fault)), saved_bytes_(saved_bytes) {}

  [[nodiscard]] cuda::ChunkMemory memory() const override {
    if (fault_ == "memory") throw std::runtime_error("the size is not known yet");
    return {saved_bytes_, 0};
  }
  [[nodiscard]] bool saves_outside_slot() const override { return fault_ == "outside"; }
  void prepare_task(const sluice::host::TaskContext& context, sluice::Pass /*pass*/,
                    const cuda::TaskBuffers& /*buffers*/, cudaStream_t /*stream*/) override {
    microbatch_ = static_cast<int>(context.microbatch);
  }
  void forward(const cuda::TaskBuffers& buffers, cudaStream_t stream) override {
    if (fault_ == "throws") throw std::runtime_error("no such layer");
    if (fault_ == "syncs") cuda::check(cudaStreamSynchronize(stream), "waiting for a layer");
    if (fault_ == "allocates") allocate();
    const int value = fault_ == "bakes" ? microbatch_ : 1;
    cuda::check(cudaMemsetAsync(buffers.slot.saved, value, kBytes, stream), "a layer");
  }
  void backward(const cuda::TaskBuffers& buffers, bool /*whole*/, cudaStream_t stream) override {
    cuda::check(cudaMemsetAsync(buffers.slot.saved, 2, kBytes, stream), "a gradient");
  }
  void weight_grad(const cuda::TaskBuffers& /*buffers*/, cudaStream_t /*stream*/) override {}

 private:
  static void allocate() {
    void* memory = nullptr;
    cuda::check(cudaMalloc(&memory, kBytes), "allocating for a layer");
    cuda::check(cudaFree(memory), "freeing a layer's memory");
  }

  std::string fault_;
  std::size_t saved_bytes_;
  int microbatch_ = 0;
};

std::vector<graphs::CaptureTarget> make_targets(const graphs::PluginArguments& arguments) {
  const auto value = [&](const char* name, const char* otherwise) {
    const auto found = arguments.find(name);
    return found != arguments.end() ? found->second : std::string(otherwise);
  };
  const std::string fault = value("fault", "none");
  if (fault == "making") throw std::runtime_error("the weights are missing");
  if (fault == "number") throw 7;
  std::vector<graphs::CaptureTarget> targets;
  if (fault == "nothing") return targets;
  graphs::CaptureTarget target;
  target.name = "the layer";
  if (fault != "empty")
    target.stage = std::make_unique<FaultyStage>(fault, std::stoul(value("saved", "256")));
  targets.push_back(std::move(target));
  return targets;
}

}  // namespace

extern "C" int sluice_capture_targets(graphs::PluginCall* call) {
  return graphs::answer(*call, make_targets);
}
