#include "report/trace_difference.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "report/trace_report.hpp"
#include "sluice/seconds.hpp"

namespace sluice::tools {
namespace {

using nlohmann::json;

/// Adds up what the stages of one run say.
class Parts {
 public:
  explicit Parts(const Pipeline& pipeline) : pipeline_(pipeline) {}

  void add(const std::vector<trace::StageTime>& stages, double DiffPart::*side) {
    for (const trace::StageTime& stage : stages) {
      const auto put = [&](const std::string& name, Duration time) {
        DiffPart& part = parts_[name];
        part.*side += seconds(time) / static_cast<double>(stages.size());
      };
      put("compute", stage.compute);
      for (const auto& [key, waited] : stage.messages)
        put(trace::edge_name(pipeline_, key.first, key.second), waited);
      put("limit", stage.limit);
      put("order", stage.order);
      put("agreement", stage.agreement);
      put("start", stage.start);
      put("idle at the end", stage.idle);
    }
  }

  /// Those that differ most first.
  [[nodiscard]] std::vector<DiffPart> sorted() const {
    std::vector<DiffPart> parts;
    for (const auto& [name, part] : parts_) parts.push_back({name, part.a_s, part.b_s});
    std::stable_sort(parts.begin(), parts.end(), [](const DiffPart& x, const DiffPart& y) {
      return std::abs(x.b_s - x.a_s) > std::abs(y.b_s - y.a_s);
    });
    return parts;
  }

 private:
  const Pipeline& pipeline_;
  std::map<std::string, DiffPart> parts_;
};

}  // namespace

std::vector<DiffPart> parts_of(const trace::RunDiff& diff, const Pipeline& pipeline) {
  Parts parts(pipeline);
  parts.add(diff.stages_a, &DiffPart::a_s);
  parts.add(diff.stages_b, &DiffPart::b_s);
  return parts.sorted();
}

json diff_json(const trace::RunDiff& diff, const std::vector<DiffPart>& parts, const Pipeline& pipeline) {
  json where = json::array();
  for (const DiffPart& part : parts)
    where.push_back(
        {{"part", part.name}, {"a_s", part.a_s}, {"b_s", part.b_s}, {"difference_s", part.b_s - part.a_s}});
  json stages = json::array();
  for (std::size_t i = 0; i < diff.stages_a.size(); ++i) {
    stages.push_back(
        {{"a", parts_json(diff.stages_a[i], pipeline)}, {"b", parts_json(diff.stages_b[i], pipeline)}});
  }
  json tasks = json::array();
  for (const trace::TaskDifference& each : diff.tasks) {
    tasks.push_back({{"pass", std::string(1, letter(each.task.pass))},
                     {"chunk", each.task.chunk},
                     {"microbatch", each.task.microbatch},
                     {"iteration", each.iteration},
                     {"stage", each.stage},
                     {"took_a_s", seconds(each.took_a)},
                     {"took_b_s", seconds(each.took_b)},
                     {"waited_a_s", seconds(each.waited_a)},
                     {"waited_b_s", seconds(each.waited_b)},
                     {"difference_s", seconds(each.difference())}});
  }
  return {{"iterations", diff.iterations},
          {"total_a_s", seconds(diff.total_a)},
          {"total_b_s", seconds(diff.total_b)},
          {"difference_s", seconds(diff.total_b - diff.total_a)},
          {"parts", where},
          {"per_stage", stages},
          {"tasks", tasks}};
}

}  // namespace sluice::tools
