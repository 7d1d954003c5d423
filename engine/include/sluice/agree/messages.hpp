#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "sluice/agree/common_tasks.hpp"
#include "sluice/agreement.hpp"
#include "sluice/clock.hpp"
#include "sluice/stage_tasks.hpp"

/// What the ranks of a group send each other: structs of fixed size, in the byte order of the machine.
namespace sluice::agree {

enum class MessageKind : std::uint8_t { Ask = 1, Decision, FirstPick, Bitmap, Ranges };

/// A task and what is said of it: for a change, whether it is runnable; elsewhere, whether there is one.
struct TaskField {
  Microbatch microbatch;
  Chunk chunk;
  std::uint8_t pass;
  std::uint8_t flag;

  [[nodiscard]] static TaskField of(const std::optional<Task>& task) {
    return task ? of({*task, true}) : TaskField{};
  }
  [[nodiscard]] static TaskField of(const RunnableChange& change) {
    return {change.task.microbatch, change.task.chunk, static_cast<std::uint8_t>(change.task.pass),
            static_cast<std::uint8_t>(change.runnable ? 1 : 0)};
  }
  [[nodiscard]] Task task() const { return {microbatch, chunk, static_cast<Pass>(pass)}; }
  [[nodiscard]] std::optional<Task> optional() const {
    return flag != 0 ? std::optional(task()) : std::nullopt;
  }
};
static_assert(sizeof(TaskField) == 8);

/// An Ask.
struct AskFields {
  TaskField focus;
  TaskField pick;
  PassMask allowed;
  std::uint8_t focusing;

  [[nodiscard]] static AskFields of(const Ask& ask) {
    return {TaskField::of(ask.focus), TaskField::of(ask.pick), ask.allowed,
            static_cast<std::uint8_t>(ask.focusing ? 1 : 0)};
  }
  [[nodiscard]] Ask ask() const { return {allowed, focusing != 0, focus.optional(), pick.optional()}; }
};

/// Begins every message.
struct Header {
  std::uint64_t iteration;
  /// Of the decision asked for or made, or of the attempt; from 1, through all iterations.
  std::uint64_t number;
  /// By the sender's clock, in nanoseconds. An ask or a contribution: since when it stands. A decision:
  /// since when it could have been made.
  std::int64_t since;
  MessageKind kind;
  /// An ask: whether it asks, or only tells changes. A decision: whether first picks differed.
  std::uint8_t flag;
  /// An ask: how many changes it tells.
  std::uint16_t changes;
  /// A decision: attempts since the last one that decided nothing.
  std::uint32_t deferrals;
};
static_assert(sizeof(Header) == 32);

/// To the leader: what changed since the last message, and what the member asks with.
struct AskMessage {
  static constexpr std::size_t kMostChanges = 7;
  static constexpr MessageKind kKind = MessageKind::Ask;

  Header header;
  AskFields ask;
  std::array<TaskField, kMostChanges> changes;
};

/// From the leader.
struct DecisionMessage {
  static constexpr MessageKind kKind = MessageKind::Decision;

  Header header;
  TaskField task;
};

/// To an attempt. A bitmap's is followed by the words of a TaskSet, that of ranges by ranges of ranks.
struct ContributionMessage {
  Header header;
  AskFields ask;
};

static_assert(std::is_trivially_copyable_v<AskMessage> && std::is_trivially_copyable_v<DecisionMessage> &&
              std::is_trivially_copyable_v<ContributionMessage>);

/// Reads what another member sent, and refuses what it cannot have meant.
class MessageReader {
 public:
  explicit MessageReader(const StageTasks& tasks) : tasks_(tasks) {}

  /// @throws ProtocolError naming the member unless it is of that kind and length
  template <typename Message>
  [[nodiscard]] Message read(std::uint32_t from, std::span<const std::byte> bytes, MessageKind kind,
                             std::size_t more = 0) const {
    if (bytes.size() != sizeof(Message) + more) refuse(from, "is of an impossible length");
    Message message;
    std::memcpy(&message, bytes.data(), sizeof message);
    if (message.header.kind != kind) refuse(from, "belongs to another kind of agreement");
    return message;
  }
  /// @throws ProtocolError naming the member if a field is out of range
  void check(std::uint32_t from, const AskFields& ask) const;
  void check(std::uint32_t from, const TaskField& task) const;

  /// @throws ProtocolError naming the member
  [[noreturn]] void refuse(std::uint32_t from, const char* reason) const;

 private:
  StageTasks tasks_;
};

}  // namespace sluice::agree
