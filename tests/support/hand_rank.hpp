#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "sluice/dispatcher.hpp"
#include "tasks.hpp"

namespace sluice::test {

/// One dispatcher whose device and messages are moved by hand. An accepted message arrives at once, and
/// messages between two chunks of the stage are offered as they are sent.
class HandRank {
 public:
  HandRank(Pipeline pipeline, const DispatcherConfig& config, std::string_view hint = "bf",
           std::uint32_t depth = 1)
      : HandRank(pipeline, config, Policy::readiness(Hint::named(hint, pipeline, config.stage)), depth) {}
  HandRank(Pipeline pipeline, const DispatcherConfig& config, Policy policy, std::uint32_t depth = 1);

  void begin(const Iteration& iteration = {});
  /// An offer comes in and the rank does all it can.
  void offer(const MessageId& id);
  void activation(Microbatch microbatch, EdgeId edge = 0);
  void gradient(Microbatch microbatch, EdgeId edge = 1);
  /// The first running task of the lane ends, and the rank does all it can.
  void finish(Lane lane = Lane::Compute);
  void fail(Lane lane = Lane::Compute);
  /// Ends what runs, one after the other, until nothing does; the tasks that ran.
  Tasks finish_all();
  /// The receivers take everything sent.
  void take_sends();
  void settle();

  /// What has been launched since the last call.
  [[nodiscard]] Tasks launched();

  /// Whether receivers take what is sent at once.
  bool sends_are_taken = true;
  std::vector<Launch> launches;
  std::vector<MessageId> accepted;
  std::vector<MessageId> sent;
  Pipeline pipeline;

 private:
  struct Device;
  struct Mail;
  struct Stopped final : Clock {
    [[nodiscard]] Time now() const override { return Time{0}; }
  };

  void end(Lane lane, Status status);

  std::shared_ptr<Device> device_;
  std::shared_ptr<Mail> mail_;
  SingleRank agreement_;
  Stopped clock_;
  std::size_t told_ = 0;

 public:
  Dispatcher dispatcher;
};

/// A configuration of the stage with this limit.
[[nodiscard]] DispatcherConfig stage_config(StageId stage, std::uint32_t limit, Rules rules = {});

}  // namespace sluice::test
