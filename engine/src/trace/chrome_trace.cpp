#include "sluice/trace/chrome_trace.hpp"

#include <nlohmann/json.hpp>

#include "chrome_events.hpp"

namespace sluice::trace {
namespace {

using nlohmann::json;

json metadata(const char* kind, std::size_t pid, std::uint32_t tid, json args) {
  return {{"ph", "M"}, {"name", kind}, {"pid", pid}, {"tid", tid}, {"args", std::move(args)}};
}

json event(const TaskSpan& span, std::size_t pid) {
  const Task task = span.task;
  return {{"ph", "X"},
          {"name", letter(task.pass) + std::to_string(task.microbatch)},
          {"cat", describe(task.pass, span.whole)},
          {"pid", pid},
          {"tid", span.stage},
          {"ts", span.start_s * kMicroseconds},
          {"dur", (span.end_s - span.start_s) * kMicroseconds},
          {"args",
           {{"iteration", span.iteration},
            {"pass", std::string(1, letter(task.pass))},
            {"chunk", task.chunk},
            {"microbatch", task.microbatch},
            {"whole", span.whole}}}};
}

}  // namespace

void append_tasks(json& events, const MethodTimeline& method, std::size_t pid) {
  (void)summarize(method);
  events.push_back(metadata("process_name", pid, 0, {{"name", method.name}}));
  events.push_back(metadata("process_sort_index", pid, 0, {{"sort_index", pid}}));
  for (std::uint32_t stage = 0; stage < method.stages; ++stage) {
    events.push_back(metadata("thread_name", pid, stage, {{"name", "stage " + std::to_string(stage)}}));
    events.push_back(metadata("thread_sort_index", pid, stage, {{"sort_index", stage}}));
  }
  for (const TaskSpan& span : method.spans) events.push_back(event(span, pid));
}

std::string document_of(json events) {
  const json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return trace.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string chrome_trace(std::span<const MethodTimeline> methods) {
  json events = json::array();
  for (std::size_t pid = 0; pid < methods.size(); ++pid) append_tasks(events, methods[pid], pid);
  return document_of(std::move(events));
}

}  // namespace sluice::trace
