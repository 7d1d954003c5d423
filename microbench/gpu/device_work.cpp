#include "gpu/device_work.hpp"

#include "sluice/cuda/device.hpp"
#include "sluice/error.hpp"

namespace sluice::microbench {
namespace {

cuda::Stream stream_of_first_device() {
  cuda::use_device(0);
  return cuda::make_stream();
}

}  // namespace

DeviceWork::DeviceWork()
    : stream_(stream_of_first_device()),
      board_(kPlaces),
      code_([this](const Launch& /*launch*/) { return time_; }, {}) {}

void DeviceWork::launch(std::uint32_t place, Duration time) {
  time_ = time;
  code_.enqueue({}, place, board_, stream());
  board_.launched(place);
}

void DeviceWork::give_up() { throw Error("the device does not come to an end"); }

}  // namespace sluice::microbench
