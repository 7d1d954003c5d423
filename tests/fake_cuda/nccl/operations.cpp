// How a communicator puts its operations on streams and keeps them in order.

#include "call.hpp"
#include "capture.hpp"
#include "communicator.hpp"
#include "failure.hpp"
#include "report.hpp"

namespace fakenccl {

using fakecuda::Work;

std::uint64_t Communicator::open(const Operation& operation) {
  const std::uint64_t ticket = ++tickets_;
  open_.emplace(ticket, Open{operation.label, operation.patient});
  board_of(place_.rank).pending.store(open_.size());
  return ticket;
}

void Communicator::end(std::uint64_t ticket) {
  {
    const std::lock_guard lock(operations_mutex_);
    open_.erase(ticket);
    board_of(place_.rank).pending.store(open_.size());
  }
  ended_.notify_all();
  board().bell.ring();
}

ncclResult_t Communicator::launch(cudaStream_t handle, const Operation& operation) {
  const auto stream = fakecuda::find_stream(handle);
  if (stream == nullptr) return fail(ncclInvalidArgument, "no such stream");
  if (fakecuda::device_error() != cudaSuccess) return fail(ncclUnhandledCudaError, "the device has failed");
  auto work = std::make_shared<Work>();
  work->type = cudaGraphNodeTypeHost;
  work->label = operation.label;
  // Also on a device that has failed: the communicator counts what was enqueued.
  work->always = true;
  std::unique_lock lock(operations_mutex_);
  std::uint64_t ticket = 0;
  if (fakecuda::captures::capturing(*stream)) {
    work->run = [self = shared_from_this(), operation] {
      std::unique_lock operations(self->operations_mutex_);
      const std::uint64_t own = self->open(operation);
      const auto body = operation.begin();
      operations.unlock();
      self->carry_out(own, body);
      return cudaSuccess;
    };
  } else {
    ticket = open(operation);
    work->run = [self = shared_from_this(), own = ticket, body = operation.begin()] {
      self->carry_out(own, body);
      return cudaSuccess;
    };
  }
  const cudaError_t error = fakecuda::submit(handle, std::move(work));
  lock.unlock();
  if (error == cudaSuccess) return ncclSuccess;
  if (ticket != 0) end(ticket);
  return fail(ncclUnhandledCudaError, cudaGetErrorString(error));
}

bool Communicator::has_turn(std::uint64_t ticket) const {
  const std::lock_guard lock(operations_mutex_);
  return open_.begin()->first == ticket;
}

std::string Communicator::blocked_by(std::uint64_t ticket) const {
  const std::lock_guard lock(operations_mutex_);
  const Open& first = open_.begin()->second;
  if (!first.patient) return "";
  return name() + ": " + open_.at(ticket).label +
         " waits for what the communicator does before, on another " + "stream: " + first.label;
}

void Communicator::carry_out(std::uint64_t ticket, const std::function<void()>& body) {
  bool dropped = false;
  {
    const std::lock_guard lock(operations_mutex_);
    dropped = over();
    if (!dropped) ++running_;
  }
  if (!dropped) {
    const bool turn = wait([&] { return has_turn(ticket); }, [&] { return blocked_by(ticket); });
    if (turn && fakecuda::device_error() == cudaSuccess) body();
    const std::lock_guard lock(operations_mutex_);
    --running_;
  }
  end(ticket);
}

}  // namespace fakenccl
