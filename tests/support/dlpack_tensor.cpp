#include "dlpack_tensor.hpp"

#include <dlpack/dlpack.h>

#include <atomic>
#include <memory>
#include <utility>

namespace sluice::test {
namespace {

std::atomic<std::int64_t> live{0};

struct Owned {
  std::vector<std::int64_t> extents;
  std::vector<double> elements;
  DLManagedTensor tensor{};
};

void destroy(DLManagedTensor* tensor) {
  const std::unique_ptr<Owned> owned(static_cast<Owned*>(tensor->manager_ctx));
  live.fetch_sub(1);
}

}  // namespace

host::TensorPtr make_tensor(std::vector<std::int64_t> extents, std::vector<double> elements) {
  auto owned = std::make_unique<Owned>();
  owned->extents = std::move(extents);
  owned->elements = std::move(elements);
  DLTensor& data = owned->tensor.dl_tensor;
  data.data = owned->elements.data();
  data.device = {kDLCPU, 0};
  data.ndim = static_cast<int>(owned->extents.size());
  data.dtype = {kDLFloat, 64, 1};
  data.shape = owned->extents.data();
  owned->tensor.manager_ctx = owned.get();
  owned->tensor.deleter = destroy;
  live.fetch_add(1);
  return host::TensorPtr(&owned.release()->tensor);
}

host::TensorPtr make_vector(std::vector<double> elements) {
  const auto extent = static_cast<std::int64_t>(elements.size());
  return make_tensor({extent}, std::move(elements));
}

std::span<double> elements_of(const host::TensorPtr& tensor) {
  return static_cast<Owned*>(tensor->manager_ctx)->elements;
}

std::int64_t live_tensors() noexcept { return live.load(); }

}  // namespace sluice::test
