#include "sluice/torch/process_group.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "gloo_backend.hpp"
#include "sluice/error.hpp"
#include "sluice/torch/broken_pipes.hpp"
#include "store_handle.hpp"

namespace sluice::gpt {
namespace {

using std::chrono::milliseconds;

constexpr int kSizeTag = 0;
constexpr int kBytesTag = 1;

milliseconds in_milliseconds(Duration duration) { return std::chrono::ceil<milliseconds>(duration); }

at::Tensor size_tensor(std::size_t size) { return at::full({1}, static_cast<std::int64_t>(size), at::kLong); }

/// gloo reads its input through pointers to non-const, and refuses tensors without elements.
at::Tensor padded_copy(std::span<const std::byte> bytes, std::int64_t size) {
  at::Tensor copy = at::zeros({std::max<std::int64_t>(size, 1)}, at::kByte);
  if (!bytes.empty()) std::memcpy(copy.mutable_data_ptr(), bytes.data(), bytes.size());
  return copy;
}

SharedBytes to_bytes(const at::Tensor& tensor, std::int64_t size) {
  const auto* first = static_cast<const std::byte*>(tensor.const_data_ptr());
  return std::make_shared<const std::vector<std::byte>>(first, first + size);
}

}  // namespace

class ProcessGroup::Backend {
 public:
  Backend(c10::intrusive_ptr<c10d::Backend> gloo, milliseconds timeout)
      : gloo_(std::move(gloo)), timeout_(timeout) {}

  void all_reduce_sum(const at::Tensor& tensor) {
    std::vector<at::Tensor> tensors{tensor};
    gloo_->allreduce(tensors)->wait(timeout_);
  }

  std::vector<at::Tensor> all_gather(const at::Tensor& own) {
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (int rank = 0; rank < gloo_->getSize(); ++rank) outputs[0].push_back(at::empty_like(own));
    std::vector<at::Tensor> inputs{own};
    gloo_->allgather(outputs, inputs)->wait(timeout_);
    return std::move(outputs[0]);
  }

  at::Tensor swap(int peer, const at::Tensor& own, std::int64_t size, int tag) {
    std::vector<at::Tensor> sent{own};
    std::vector<at::Tensor> received{at::empty({size}, own.options())};
    const auto sending = gloo_->send(sent, peer, tag);
    gloo_->recv(received, peer, tag)->wait(timeout_);
    sending->wait(timeout_);
    return received[0];
  }

  void barrier() { gloo_->barrier()->wait(timeout_); }

 private:
  c10::intrusive_ptr<c10d::Backend> gloo_;
  milliseconds timeout_;
};

/// Turns gloo's errors, which name neither ranks nor group, into the library's.
template <typename Call>
auto ProcessGroup::guarded(Call call) {
  const BrokenPipesAreErrors while_calling;
  try {
    return call();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    const std::string cause = text.substr(0, text.find('\n'));
    if (cause.find("imed out") != std::string::npos || cause.find("imeout") != std::string::npos) {
      throw StallError(
          fmt::format("{} waited for {} ms: {}", who(), in_milliseconds(timeout_).count(), cause));
    }
    throw Aborted(fmt::format("{} lost a rank: {}", who(), cause));
  }
}

std::string ProcessGroup::who() const {
  return fmt::format("rank {} in its {} (ranks {})", members_.ranks[members_.index], members_.name,
                     fmt::join(members_.ranks, ", "));
}

ProcessGroup::ProcessGroup(Members members, const StoreHandle& store, const GlooDevice& device,
                           Duration timeout)
    : members_(std::move(members)), timeout_(timeout) {
  if (size() == 1) return;
  const std::string prefix = fmt::format("groups/{}/{}", members_.name, members_.ranks.front());
  const auto keys = c10::make_intrusive<c10d::PrefixStore>(prefix, store.store);
  backend_ = guarded([&] {
    return std::make_unique<Backend>(
        device.connect(keys, static_cast<int>(index()), static_cast<int>(size()), in_milliseconds(timeout_)),
        in_milliseconds(timeout_));
  });
}

ProcessGroup::~ProcessGroup() = default;

void ProcessGroup::all_reduce_sum(std::span<float> values) {
  if (backend_ == nullptr || values.empty()) return;
  guarded([&] {
    backend_->all_reduce_sum(
        at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kFloat));
  });
}

std::vector<SharedBytes> ProcessGroup::all_gather(std::span<const std::byte> own) {
  if (backend_ == nullptr) return {std::make_shared<const std::vector<std::byte>>(own.begin(), own.end())};
  return guarded([&] {
    std::vector<std::int64_t> sizes;
    for (const at::Tensor& size : backend_->all_gather(size_tensor(own.size()))) {
      sizes.push_back(size.item<std::int64_t>());
    }
    const std::vector<at::Tensor> all = backend_->all_gather(padded_copy(own, std::ranges::max(sizes)));
    std::vector<SharedBytes> bytes;
    for (std::size_t rank = 0; rank < all.size(); ++rank) bytes.push_back(to_bytes(all[rank], sizes[rank]));
    return bytes;
  });
}

SharedBytes ProcessGroup::swap_with(std::uint32_t peer, std::span<const std::byte> own) {
  if (peer >= size() || peer == index()) {
    throw Error(fmt::format("{} cannot swap with place {}", who(), peer));
  }
  return guarded([&] {
    const int other = static_cast<int>(peer);
    const auto size = backend_->swap(other, size_tensor(own.size()), 1, kSizeTag).item<std::int64_t>();
    const auto own_size = static_cast<std::int64_t>(own.size());
    const std::int64_t padded = std::max<std::int64_t>({size, own_size, 1});
    return to_bytes(backend_->swap(other, padded_copy(own, padded), padded, kBytesTag), size);
  });
}

void ProcessGroup::barrier() {
  if (backend_ != nullptr) guarded([&] { backend_->barrier(); });
}

}  // namespace sluice::gpt
