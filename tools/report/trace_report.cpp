#include "report/trace_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sluice/error.hpp"
#include "sluice/host/delay_model.hpp"
#include "sluice/host/duration_model.hpp"
#include "sluice/seconds.hpp"
#include "sluice/trace/output_file.hpp"

namespace sluice::tools {
void check_json_path(const std::string& path) {
  if (!path.empty()) trace::check_writable("json", path);
}

void write_json(const std::string& path, const nlohmann::json& results) {
  if (path.empty()) return;
  // Names of files may hold bytes that are not UTF-8, which JSON cannot: they are replaced.
  trace::write_file_atomically(path,
                               results.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  fmt::print("results    {}\n", path);
}

nlohmann::json parts_json(const trace::StageTime& time, const Pipeline& pipeline) {
  nlohmann::json messages = nlohmann::json::object();
  for (const auto& [key, waited] : time.messages)
    messages[trace::edge_name(pipeline, key.first, key.second)] = seconds(waited);
  return {{"compute_s", seconds(time.compute)}, {"messages_s", seconds(time.waiting_for_messages())},
          {"messages_by_edge_s", messages},     {"limit_s", seconds(time.limit)},
          {"order_s", seconds(time.order)},     {"agreement_s", seconds(time.agreement)},
          {"start_s", seconds(time.start)},     {"idle_s", seconds(time.idle)}};
}

std::string longest_wait(const trace::StageTime& time, const Pipeline& pipeline) {
  const auto longest = std::max_element(time.messages.begin(), time.messages.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  if (longest == time.messages.end()) return {};
  return fmt::format("{} ({:.1f} ms)",
                     trace::edge_name(pipeline, longest->first.first, longest->first.second),
                     1e3 * seconds(longest->second));
}

trace::MessageTime emulated_message_time(const trace::Recording& recording, const trace::RecordedRun& run) {
  const nlohmann::json settings = nlohmann::json::parse(recording.settings);
  const auto has = [&settings](const char* name, bool (nlohmann::json::*is)() const noexcept) {
    return settings.contains(name) && (settings[name].*is)();
  };
  if (!has("emulate", &nlohmann::json::is_string) || !has("jitter", &nlohmann::json::is_string) ||
      !has("seed", &nlohmann::json::is_number_unsigned))
    return {};
  const auto delays = host::DelayModel::parse(settings["jitter"].get<std::string>());
  const auto durations = host::DurationModel::parse(settings["emulate"].get<std::string>());
  const std::size_t chunks = std::max<std::size_t>(1, run.pipeline.chunks() / run.pipeline.stages());
  const Duration average = (durations.forward() + durations.backward()) / (2 * chunks);
  const auto seed = settings["seed"].get<std::uint64_t>();
  return [delays, average, seed, &pipeline = run.pipeline](const MessageId& id) -> std::optional<Duration> {
    if (trace::sender(pipeline, id) == trace::receiver(pipeline, id)) return Duration{0};
    return delays.draw(seed, id, average);
  };
}

}  // namespace sluice::tools
