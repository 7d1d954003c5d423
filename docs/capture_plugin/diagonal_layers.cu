// A stage for `sluice capture --plugin`: layers that multiply every column by a weight of its own.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "diagonal_kernels.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/cuda/stage.hpp"
#include "sluice/graphs/plugin.hpp"

namespace diagonal {

__device__ int own_index() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

__global__ void scale(float* out, const float* x, const float* w, int elements, int width) {
  if (const int i = own_index(); i < elements) scale_element(out, x, w, width, i);
}

__global__ void add_columns(float* grad, const float* x, const float* y, int rows, int width) {
  if (const int i = own_index(); i < width) add_column(grad, x, y, rows, width, i);
}

}  // namespace diagonal

namespace {

namespace cuda = sluice::cuda;
namespace graphs = sluice::graphs;

constexpr std::uint8_t kFloat = 2;  // as DLPack has it
constexpr unsigned kThreads = 128;
/// Layers, rows or columns: an int then counts the elements of a tensor, and of all weights.
constexpr int kMost = 16384;
constexpr std::array<std::string_view, 4> kNames{"layers", "rows", "width", "split"};

cudaLaunchConfig_t over(int elements, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = (static_cast<unsigned>(elements) + kThreads - 1) / kThreads;
  config.blockDim = kThreads;
  config.stream = stream;
  return config;
}

struct Size {
  int layers = 8;
  int rows = 4;
  int width = 64;
};

/// A slot keeps the input of every layer, and from the backward to the weight gradients the gradient of every
/// layer's output.
class DiagonalLayers final : public cuda::Stage {
 public:
  explicit DiagonalLayers(const Size& size)
      : size_(size),
        weights_(weight_bytes(), "weights"),
        gradient_(weight_bytes(), "a weight gradient"),
        state_{cuda::DeviceSpan{gradient_.data(), gradient_.size(), kFloat, 32}} {
    const std::vector<float> ones(static_cast<std::size_t>(size.layers) * size.width, 1.01F);
    cuda::check(cudaMemcpy(weights_.data(), ones.data(), weights_.size(), cudaMemcpyHostToDevice), "weights");
    cuda::check(cudaMemset(gradient_.data(), 0, gradient_.size()), "clearing a weight gradient");
  }

  [[nodiscard]] cuda::ChunkMemory memory() const override { return {2 * tensor_bytes() * size_.layers, 0}; }
  [[nodiscard]] std::span<const cuda::DeviceSpan> state() const override { return state_; }

  void forward(const cuda::TaskBuffers& buffers, cudaStream_t stream) override {
    const auto* const input = reinterpret_cast<const float*>(buffers.slot.inputs[0][0].data);
    auto* const output = reinterpret_cast<float*>(buffers.slot.outputs[0][0].data);
    cuda::check(cudaMemcpyAsync(kept(buffers, 0), input, tensor_bytes(), cudaMemcpyDeviceToDevice, stream),
                "input");
    for (int layer = 0; layer < size_.layers; ++layer) {
      float* const out = layer + 1 < size_.layers ? kept(buffers, layer + 1) : output;
      enqueue_scale(out, kept(buffers, layer), weight(layer), stream);
    }
  }

  void backward(const cuda::TaskBuffers& buffers, bool whole, cudaStream_t stream) override {
    const auto* const grad = reinterpret_cast<const float*>(buffers.slot.output_grads[0][0].data);
    auto* const input_grad = reinterpret_cast<float*>(buffers.slot.input_grads[0][0].data);
    cuda::check(cudaMemcpyAsync(kept_grad(buffers, size_.layers - 1), grad, tensor_bytes(),
                                cudaMemcpyDeviceToDevice, stream),
                "output gradient");
    for (int layer = size_.layers - 1; layer >= 0; --layer) {
      float* const out = layer > 0 ? kept_grad(buffers, layer - 1) : input_grad;
      enqueue_scale(out, kept_grad(buffers, layer), weight(layer), stream);
    }
    if (whole) weight_grad(buffers, stream);
  }

  /// In two branches: the layers do not depend on each other.
  void weight_grad(const cuda::TaskBuffers& buffers, cudaStream_t stream) override {
    cuda::check(cudaEventRecord(forked_.get(), stream), "forking");
    cuda::check(cudaStreamWaitEvent(branch_.get(), forked_.get(), 0), "forking");
    for (int layer = 0; layer < size_.layers; ++layer) {
      const cudaLaunchConfig_t config = over(size_.width, layer % 2 == 0 ? stream : branch_.get());
      float* const grad = floats(gradient_) + layer * size_.width;
      cuda::check(cudaLaunchKernelEx(&config, diagonal::add_columns, grad, kept(buffers, layer),
                                     kept_grad(buffers, layer), size_.rows, size_.width),
                  "weight gradient");
    }
    cuda::check(cudaEventRecord(joined_.get(), branch_.get()), "joining");
    cuda::check(cudaStreamWaitEvent(stream, joined_.get(), 0), "joining");
  }

 private:
  static float* floats(const cuda::DeviceMemory& memory) { return reinterpret_cast<float*>(memory.data()); }
  [[nodiscard]] int elements() const { return size_.rows * size_.width; }
  [[nodiscard]] std::size_t tensor_bytes() const { return sizeof(float) * size_.rows * size_.width; }
  [[nodiscard]] std::size_t weight_bytes() const { return sizeof(float) * size_.layers * size_.width; }
  [[nodiscard]] const float* weight(int layer) const { return floats(weights_) + layer * size_.width; }
  [[nodiscard]] float* kept(const cuda::TaskBuffers& buffers, int layer) const {
    return reinterpret_cast<float*>(buffers.slot.saved) + static_cast<std::size_t>(layer) * elements();
  }
  [[nodiscard]] float* kept_grad(const cuda::TaskBuffers& buffers, int layer) const {
    return kept(buffers, size_.layers + layer);
  }
  void enqueue_scale(float* out, const float* x, const float* w, cudaStream_t stream) const {
    const cudaLaunchConfig_t config = over(elements(), stream);
    cuda::check(cudaLaunchKernelEx(&config, diagonal::scale, out, x, w, elements(), size_.width), "a layer");
  }

  Size size_;
  cuda::DeviceMemory weights_;
  cuda::DeviceMemory gradient_;
  std::array<cuda::DeviceSpan, 1> state_;
  cuda::Stream branch_ = cuda::make_stream();
  cuda::Event forked_ = cuda::make_event();
  cuda::Event joined_ = cuda::make_event();
};

int number(const graphs::PluginArguments& arguments, const char* name, int otherwise, int least = 1,
           int most = kMost) {
  const auto found = arguments.find(name);
  if (found == arguments.end()) return otherwise;
  const std::string& text = found->second;
  const char* const end = text.data() + text.size();
  int value = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || rest != end || value < least || value > most) {
    throw std::invalid_argument(std::string(name) + " must be a whole number from " + std::to_string(least) +
                                " to " + std::to_string(most) + ", not '" + text + "'");
  }
  return value;
}

void refuse_unknown(const graphs::PluginArguments& arguments) {
  for (const auto& [name, value] : arguments) {
    if (std::ranges::find(kNames, name) == kNames.end())
      throw std::invalid_argument("'" + name + "' is no argument: give layers, rows, width or split");
  }
}

std::vector<graphs::CaptureTarget> make_targets(const graphs::PluginArguments& arguments) {
  refuse_unknown(arguments);
  Size size;
  size.layers = number(arguments, "layers", size.layers);
  size.rows = number(arguments, "rows", size.rows);
  size.width = number(arguments, "width", size.width);
  sluice::TensorShape shape;
  shape.dtype_code = kFloat;
  shape.dtype_bits = 32;
  shape.rank = 2;
  shape.extent[0] = size.rows;
  shape.extent[1] = size.width;
  graphs::CaptureTarget target;
  target.name = "diagonal layers";
  target.inputs = {shape};
  target.outputs = {shape};
  target.split = number(arguments, "split", 0, 0, 1) == 1;
  target.stage = std::make_unique<DiagonalLayers>(size);
  std::vector<graphs::CaptureTarget> targets;
  targets.push_back(std::move(target));
  return targets;
}

}  // namespace

extern "C" int sluice_capture_targets(graphs::PluginCall* call) {
  return graphs::answer(*call, make_targets);
}
