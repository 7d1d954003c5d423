#include "sluice/host/host_executor.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::host {
namespace {

constexpr Duration kLongestSleep = std::chrono::seconds(1);

std::vector<TensorShape> shapes_of(const Payload& payload) {
  std::vector<TensorShape> shapes;
  shapes.reserve(payload.size());
  for (const TensorPtr& tensor : payload) {
    if (!tensor) throw Error("a payload holds an empty tensor");
    shapes.push_back(shape_of(*tensor));
  }
  return shapes;
}

bool declared(const TensorShape& shape) { return shape.dtype_bits != 0; }

void check_output(const Payload& payload, const TensorShape& expected, std::size_t place) {
  const std::string name = "output " + std::to_string(place);
  const std::vector<TensorShape> shapes = shapes_of(payload);
  if (!declared(expected)) return;
  if (shapes.size() != 1)
    throw Error(name + " has " + std::to_string(shapes.size()) + " tensors, expected 1");
  if (shapes[0] != expected) {
    throw Error(name + " has shape " + to_string(shapes[0]) + ", expected " + to_string(expected));
  }
}

void check_input_grad(const Payload& payload, const std::vector<TensorShape>& inputs, std::size_t place) {
  const std::string name = "gradient of input " + std::to_string(place);
  const std::vector<TensorShape> shapes = shapes_of(payload);
  if (shapes.size() != inputs.size()) {
    throw Error(name + " has " + std::to_string(shapes.size()) + " tensors, expected " +
                std::to_string(inputs.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (shapes[i] == inputs[i] || is_absent(shapes[i])) continue;
    throw Error(name + " has shape " + to_string(shapes[i]) + ", expected " + to_string(inputs[i]));
  }
}

/// Text of what the call throws; empty if it returns.
template <typename Call>
std::string failure_of(Call call) {
  try {
    call();
    return {};
  } catch (const std::exception& error) {
    return *error.what() == '\0' ? "an exception without a text" : error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

HostExecutor::HostExecutor(const Pipeline& pipeline, StageId stage, std::vector<host::Stage*> stages,
                           SlotBuffers& buffers, Wake& wake, Options options)
    : pipeline_(pipeline),
      tasks_(pipeline, stage),
      stages_(std::move(stages)),
      buffers_(buffers),
      wake_(wake),
      options_(options),
      launches_(options.depth),
      dones_(options.depth) {
  if (options_.depth == 0) throw ConfigError("launch-ahead", "an executor holds at least one task");
  if (stages_.size() != tasks_.chunks()) {
    throw ConfigError("stages", std::to_string(stages_.size()) + " given for the " +
                                    std::to_string(tasks_.chunks()) + " chunks of stage " +
                                    std::to_string(stage));
  }
  if (!options_.lent_thread) worker_ = std::thread([this] { work(); });
}

HostExecutor::~HostExecutor() {
  if (options_.lent_thread) return;
  stop_.store(true, std::memory_order_release);
  worker_wake_.notify();
  const SteadyClock clock;
  const Time deadline = clock.now() + options_.grace;
  while (!ended_.load(std::memory_order_acquire)) {
    if (clock.now() >= deadline) abandon();
    ended_wake_.wait_until(deadline);
  }
  worker_.join();
}

void HostExecutor::abandon() const {
  const auto seconds = std::chrono::duration<double>(options_.grace).count();
  fmt::print(stderr, "sluice: rank {}, {}: has not returned for {} s although the run is over; aborting\n",
             options_.rank, to_string(running_.load(std::memory_order_acquire)), seconds);
  std::abort();
}

void HostExecutor::launch(const Launch& launch) {
  ++outstanding_;
  launches_.push(launch);
  worker_wake_.notify();
}

bool HostExecutor::poll(Done& done) {
  if (!dones_.pop(done)) return false;
  --outstanding_;
  return true;
}

bool HostExecutor::run_one(Time deadline) {
  Launch next;
  if (!launches_.pop(next)) {
    worker_wake_.wait_until(deadline);
    if (!launches_.pop(next)) return false;
  }
  finish(next);
  return true;
}

void HostExecutor::finish(const Launch& launch) {
  running_.store(launch.task, std::memory_order_release);
  dones_.push(run(launch));
  wake_.notify();
}

void HostExecutor::work() {
  Idler idler(worker_wake_);
  while (!stop_.load(std::memory_order_acquire)) {
    Launch next;
    if (!launches_.pop(next)) {
      idler.wait(SteadyClock().now() + kLongestSleep);
      continue;
    }
    idler.reset();
    finish(next);
  }
  ended_.store(true, std::memory_order_release);
  ended_wake_.notify();
}

/// After a failure nothing runs any more, and its cause stays: the rank may be reading it.
Done HostExecutor::run(const Launch& launch) {
  const SteadyClock clock;
  Done done{launch.task, launch.slot, clock.now(), {}, Status::Failed, launch.whole};
  if (failure_.empty()) {
    failure_ = failure_of([&] {
      if (!std::exchange(prepared_, true)) prepare();
      done.started = clock.now();
      call(launch);
    });
    if (failure_.empty()) done.status = Status::Ok;
  }
  done.ended = clock.now();
  return done;
}

void HostExecutor::prepare() {
  for (host::Stage* stage : stages_) stage->prepare(buffers_.size());
}

void HostExecutor::call(const Launch& launch) {
  host::Stage& code = *stages_[tasks_.position(launch.task.chunk)];
  switch (launch.task.pass) {
    case Pass::Forward:
      return forward(launch, code);
    case Pass::Backward:
      return backward(launch, code);
    case Pass::WeightGrad:
      return code.weight_grad(context(launch));
  }
}

void HostExecutor::forward(const Launch& launch, host::Stage& code) {
  SlotBuffer& buffer = buffers_[launch.slot];
  const std::size_t in = pipeline_.in_edges(launch.task.chunk).size();
  const std::size_t out = pipeline_.out_edges(launch.task.chunk).size();
  for (std::size_t i = 0; i < in; ++i) buffer.input_shapes[i] = shapes_of(buffer.inputs[i]);
  for (std::size_t i = 0; i < out; ++i) buffer.outputs[i].clear();
  code.forward(context(launch), std::span(buffer.inputs).first(in), std::span(buffer.outputs).first(out));
  for (std::size_t i = 0; i < out; ++i) check_output(buffer.outputs[i], code.output_shape(i), i);
  for (std::size_t i = 0; launch.forward_only && i < in; ++i) buffer.inputs[i].clear();
}

void HostExecutor::backward(const Launch& launch, host::Stage& code) {
  SlotBuffer& buffer = buffers_[launch.slot];
  const std::size_t in = pipeline_.in_edges(launch.task.chunk).size();
  const std::size_t out = pipeline_.out_edges(launch.task.chunk).size();
  for (std::size_t i = 0; i < in; ++i) buffer.input_grads[i].clear();
  code.backward(context(launch), launch.whole, std::span(buffer.output_grads).first(out),
                std::span(buffer.input_grads).first(in));
  for (std::size_t i = 0; i < in; ++i) check_input_grad(buffer.input_grads[i], buffer.input_shapes[i], i);
  for (std::size_t i = 0; i < in; ++i) buffer.inputs[i].clear();
  for (std::size_t i = 0; i < out; ++i) buffer.output_grads[i].clear();
}

TaskContext HostExecutor::context(const Launch& launch) const {
  return {options_.rank, launch.iteration, launch.task.microbatch, launch.slot, launch.forward_only};
}

}  // namespace sluice::host
