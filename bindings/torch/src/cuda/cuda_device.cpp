#include "cuda_device.hpp"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "generator_words.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/error.hpp"
#include "sluice/torch/cuda/allocator_settings.hpp"

namespace sluice::capture {
namespace {

int checked(int ordinal) {
  check_allocator(AllocatorSettings::of_environment());
  cuda::use_device(ordinal);
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return ordinal;
}

std::uint32_t checked_slots(std::uint32_t slots) {
  if (slots == 0) throw ConfigError("slots", "a stage needs one at least");
  return slots;
}

c10::DeviceIndex index_of(int ordinal) { return static_cast<c10::DeviceIndex>(ordinal); }

at::Tensor word_at(std::uint64_t* word, c10::Device device) {
  return at::for_blob(word, {1})
      .options(at::TensorOptions().dtype(at::kLong).device(device))
      .target_device(device)
      .make_tensor();
}

}  // namespace

/// Torch's operators draw from its default generator, which is given a state of ours while they run.
struct CudaDevice::Generators {
  explicit Generators(int ordinal)
      : state(c10::make_intrusive<at::CUDAGeneratorState>()),
        ours(at::make_generator<at::CUDAGeneratorImpl>(index_of(ordinal), state)),
        torchs(at::cuda::detail::getDefaultCUDAGenerator(index_of(ordinal))) {}

  c10::intrusive_ptr<at::CUDAGeneratorState> state;
  at::Generator ours;
  at::Generator torchs;
};

class CudaDevice::CudaWork final : public Work {
 public:
  CudaWork(Generators& generators, cudaStream_t stream, c10::Device device, GraphPool* pool,
           std::optional<std::uint64_t> capture, const Draws& draws)
      : generators_(generators),
        capture_(capture),
        stream_(c10::cuda::getStreamFromExternal(stream, device.index())),
        was_(generators.torchs.graphsafe_get_state()) {
    if (pool != nullptr && capture) routing_.emplace(*pool, *capture);
    at::CUDAGeneratorState& state = *generators_.state;
    if (!capture) {
      state.seed_ = draws.state.seed;
      state.philox_offset_per_thread_ = first_ = draws.state.offset + draws.used;
      used_ = draws.used;
    } else if (draws.words != nullptr) {
      read_from_words(state, *capture, word_at(&draws.words->seed, device),
                      word_at(&draws.words->offset, device), draws.used);
    }
    generators_.torchs.graphsafe_set_state(generators_.ours);
  }
  ~CudaWork() override {
    generators_.torchs.graphsafe_set_state(was_);
    if (capture_) leave_words(*generators_.state, *capture_);
  }
  CudaWork(const CudaWork&) = delete;
  CudaWork& operator=(const CudaWork&) = delete;

  [[nodiscard]] std::uint64_t used() const override {
    if (capture_) return used_in_capture(*generators_.state, *capture_);
    return used_ + generators_.state->philox_offset_per_thread_ - first_;
  }

 private:
  Generators& generators_;
  std::optional<std::uint64_t> capture_;
  c10::cuda::CUDAStreamGuard stream_;
  at::Generator was_;
  std::optional<GraphPool::Routing> routing_;
  std::uint64_t first_ = 0;
  std::uint64_t used_ = 0;
};

CudaDevice::CudaDevice(const Options& options)
    : options_{checked(options.ordinal), checked_slots(options.slots), options.seed, options.chunk},
      words_(options.slots, options.seed, options.chunk),
      followed_(cuda::make_event()),
      generators_(std::make_unique<Generators>(options.ordinal)) {
  const std::string allocator = c10::cuda::CUDACachingAllocator::name();
  if (allocator != "native") {
    throw ConfigError("allocator",
                      fmt::format("torch allocates device memory with '{}', which keeps no memory "
                                  "for captures as its own does",
                                  allocator));
  }
}

CudaDevice::~CudaDevice() {
  pools_.clear();
  try {
    c10::cuda::CUDACachingAllocator::emptyCache();
  } catch (const c10::Error&) {
    // The device failed, which whatever used it has told.
    static_cast<void>(cudaGetLastError());
  }
}

c10::Device CudaDevice::device() const { return {c10::DeviceType::CUDA, index_of(options_.ordinal)}; }

std::unique_ptr<TorchDevice::Work> CudaDevice::begin(cudaStream_t stream, const void* slot,
                                                     const Draws& draws) {
  const std::optional<std::uint64_t> capture = capture_of(stream);
  GraphPool* const pool =
      capture ? &pools_.try_emplace(slot, index_of(options_.ordinal)).first->second : nullptr;
  return std::make_unique<CudaWork>(*generators_, stream, device(), pool, capture, draws);
}

void CudaDevice::follow(cudaStream_t stream, cudaStream_t other) {
  cuda::check(cudaEventRecord(followed_.get(), other), "recording an event between two streams");
  cuda::check(cudaStreamWaitEvent(stream, followed_.get(), 0), "letting a stream wait for another");
}

graphs::RandomState CudaDevice::write(const host::TaskContext& context, graphs::RandomState* words,
                                      cudaStream_t stream) {
  check_slot(context.slot);
  words_.prepare(context, Pass::Forward, words, stream);
  return graphs::random_state(options_.seed, context.iteration, options_.chunk, context.microbatch);
}

void CudaDevice::reserve(std::size_t data_bytes) {
  data_bytes_ = data_bytes;
  if (data_bytes > 0) staging_ = cuda::MappedMemory(options_.slots * data_bytes, "the data of microbatches");
}

std::span<std::byte> CudaDevice::staging(Slot slot) {
  check_slot(slot);
  return {staging_.host() + slot * data_bytes_, data_bytes_};
}

void CudaDevice::copy(std::byte* to, std::span<const std::byte> from, cudaStream_t stream) {
  cuda::check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, stream),
              "copying a microbatch's data");
}

void CudaDevice::read(std::span<std::byte> to, const std::byte* from, cudaStream_t stream) const {
  cuda::check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream), "reading a loss");
  cuda::check(cudaStreamSynchronize(stream), "reading a loss");
}

std::uint64_t CudaDevice::pool_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [slot, pool] : pools_) bytes += pool.bytes();
  return bytes;
}

void CudaDevice::check_slot(Slot slot) const {
  if (slot < options_.slots) return;
  throw Error(fmt::format("slot {} of a stage that was made for {}", slot, options_.slots));
}

}  // namespace sluice::capture
