#include <fmt/format.h>

#include <iterator>

#include "sluice/trace/recorded_export.hpp"

namespace sluice::trace {
namespace {

constexpr const char* kHeader =
    "kind,method,iteration,stage,pass,chunk,microbatch,whole,slot,start_ns,end_ns,noticed_ns,edge,direction,"
    "sender,sent_ns,offered_ns,accepted_ns,arrived_ns\n";

/// As RFC 4180 wants it.
std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

void write(std::string& out, const std::string& method, const RecordedTask& each) {
  const std::string slot = each.slot == kNoSlot ? "" : std::to_string(each.slot);
  fmt::format_to(std::back_inserter(out), "task,{},{},{},{},{},{},{},{},{},{},{},,,,,,,\n", method,
                 each.iteration, each.stage, letter(each.task.pass), each.task.chunk, each.task.microbatch,
                 each.whole ? 1 : 0, slot, each.start.count(), each.end.count(), each.noticed.count());
}

void write(std::string& out, const std::string& method, const Pipeline& pipeline,
           const RecordedMessage& each) {
  const char* direction = each.id.direction == Direction::Activation ? "activation" : "gradient";
  fmt::format_to(std::back_inserter(out), "message,{},{},{},,,{},,,,,,{},{},{},{},{},{},{}\n", method,
                 each.id.iteration, receiver(pipeline, each.id), each.id.microbatch, each.id.edge, direction,
                 sender(pipeline, each.id), each.sent.count(), each.offered.count(), each.accepted.count(),
                 each.arrived.count());
}

}  // namespace

std::string recorded_csv(std::span<const RecordedRun> runs) {
  std::string out = kHeader;
  for (const RecordedRun& run : runs) {
    const std::string method = quoted(run.method);
    for (const RecordedTask& each : run.tasks) write(out, method, each);
    for (const RecordedMessage& each : run.messages) write(out, method, run.pipeline, each);
  }
  return out;
}

}  // namespace sluice::trace
