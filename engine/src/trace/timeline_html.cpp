#include "sluice/trace/timeline_html.hpp"

#include <nlohmann/json.hpp>

#include "timeline_page.hpp"

namespace sluice::trace {
namespace {

using nlohmann::json;

json column_names() {
  return {"iteration", "stage", "pass", "chunk", "microbatch", "whole", "start_s", "end_s"};
}

json to_json(const TaskSpan& span) {
  const Task task = span.task;
  return {span.iteration, span.stage,      std::string(1, letter(task.pass)),
          task.chunk,     task.microbatch, span.whole,
          span.start_s,   span.end_s};
}

json to_json(const IterationSummary& summary) {
  return {{"iteration", summary.iteration},
          {"start_s", summary.start_s},
          {"makespan_s", summary.makespan_s},
          {"bubble_share", summary.bubble_share}};
}

json to_json(const MethodTimeline& method) {
  json iterations = json::array();
  for (const IterationSummary& summary : summarize(method)) iterations.push_back(to_json(summary));
  json spans = json::array();
  for (const TaskSpan& span : method.spans) spans.push_back(to_json(span));
  return {{"name", method.name},
          {"stages", method.stages},
          {"iterations", std::move(iterations)},
          {"spans", std::move(spans)}};
}

/// JSON that no HTML parser can take for the end of its script element.
std::string embeddable(const json& value) {
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string timeline_html(std::span<const MethodTimeline> methods) {
  json data = {{"columns", column_names()}, {"methods", json::array()}};
  for (const MethodTimeline& method : methods) data["methods"].push_back(to_json(method));
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Sluice timeline</title>\n<style>";
  page.append(timeline_style()).append("</style>\n</head>\n<body>").append(kTimelineBody);
  page.append("<script type=\"application/json\" id=\"timeline-data\">").append(embeddable(data));
  page.append("</script>\n<script>").append(kTimelineScript).append("</script>\n</body>\n</html>\n");
  return page;
}

}  // namespace sluice::trace
