#include "gloo_backend.hpp"

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

#include "calm_threads.hpp"
#include "sluice/torch/broken_pipes.hpp"

namespace sluice::gpt {

using c10d::ProcessGroupGloo;

struct GlooDevice::Impl {
  std::vector<std::shared_ptr<::gloo::transport::Device>> devices;
};

GlooDevice::GlooDevice(const std::string& address) : impl_(std::make_unique<Impl>()) {
  const BrokenPipesAreErrors while_threads_start;
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  impl_->devices.push_back(interface != nullptr ? ProcessGroupGloo::createDeviceForInterface(interface)
                                                : ProcessGroupGloo::createDeviceForHostname(address));
}

GlooDevice::~GlooDevice() = default;

c10::intrusive_ptr<c10d::Backend> GlooDevice::connect(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                      int size, std::chrono::milliseconds timeout) const {
  const auto options = ProcessGroupGloo::Options::create(timeout);
  options->devices = impl_->devices;
  options->threads = 1;  // calls on a group are made one at a time
  auto group = c10::make_intrusive<ProcessGroupGloo>(store, rank, size, options);
  calm_gloo_threads();  // by now they have their names
  return group;
}

}  // namespace sluice::gpt
