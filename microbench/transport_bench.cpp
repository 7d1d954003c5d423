#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sluice/error.hpp"
#include "transport/measurements.hpp"

/// The transport over UCX between two processes on one host, against ucx_perftest in the same run. Both use
/// what UCX_TLS and UCX_NET_DEVICES allow.
namespace sluice::microbench {
namespace {

constexpr double kMostLatencyRatio = 1.3;
constexpr double kLeastBandwidthRatio = 0.9;
constexpr double kMostPollingUs = 2;
constexpr double kMostSleepingUs = 15;

struct Settings {
  std::uint32_t turns = 20000;
  std::uint32_t messages = 2000;
  std::uint32_t window = 4;
  std::uint32_t launches = 2000;
  std::uint32_t rounds = 3;
  double task_us = 200;
  std::string json;
};

struct Line {
  std::string name;
  std::string unit;
  double value = 0;
  /// What it is compared with; not a number where there is nothing.
  double reference = std::nan("");
  /// Bounds of value / reference, or of value without one.
  double most = std::nan("");
  double least = std::nan("");

  [[nodiscard]] bool compared() const { return !std::isnan(reference); }
  [[nodiscard]] double judged() const { return compared() ? value / reference : value; }
  [[nodiscard]] bool met() const {
    return (std::isnan(most) || judged() <= most) && (std::isnan(least) || judged() >= least);
  }
};

/// The middle one of several measurements, each next to its reference: a loaded host shifts both.
template <typename Measure>
Line middle(const Settings& settings, Measure measure) {
  std::vector<Line> lines;
  for (std::uint32_t round = 0; round < settings.rounds; ++round) lines.push_back(measure());
  const auto by_value = [](const Line& a, const Line& b) { return a.judged() < b.judged(); };
  std::sort(lines.begin(), lines.end(), by_value);
  return lines[lines.size() / 2];
}

Line latency(const Settings& settings, std::size_t bytes) {
  return middle(settings, [&] {
    const Latency ours = measure_latency(bytes, settings.turns);
    Line line{fmt::format("latency, {} B payload, against ucp_am_lat by rendezvous", bytes), "us",
              ours.median_us, perftest_latency(bytes, true, settings.turns)};
    line.most = kMostLatencyRatio;
    return line;
  });
}

/// Perftest's smallest message has no header, so there is no like for like and no bound.
Line header_latency(const Settings& settings) {
  return middle(settings, [&] {
    return Line{"latency, no tensors, against 8 B of ucp_am_lat sent at once", "us",
                measure_latency(0, settings.turns).median_us, perftest_latency(8, false, settings.turns)};
  });
}

Line bandwidth(const Settings& settings, std::size_t bytes) {
  return middle(settings, [&] {
    Line line{fmt::format("bandwidth, {} B payload, window {}, against ucp_am_bw by rendezvous", bytes,
                          settings.window),
              "MB/s", measure_bandwidth(bytes, settings.window, settings.messages),
              perftest_bandwidth(bytes, settings.window, settings.messages)};
    line.least = kLeastBandwidthRatio;
    return line;
  });
}

Line launch(const Settings& settings, Waiting waiting, std::size_t bytes) {
  return middle(settings, [&] {
    const bool polls = waiting == Waiting::Polls;
    Line line{fmt::format("send to launch in the other process, {}, {}", polls ? "polling" : "from sleep",
                          bytes == 0 ? "no tensors" : fmt::format("{} B payload", bytes)),
              "us", measure_launch(waiting, bytes, settings.launches).median_us};
    if (bytes == 0) line.most = polls ? kMostPollingUs : kMostSleepingUs;
    return line;
  });
}

std::vector<Line> measure(const Settings& settings) {
  std::vector<Line> lines;
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{65536}})
    lines.push_back(latency(settings, bytes));
  lines.push_back(header_latency(settings));
  lines.push_back(bandwidth(settings, std::size_t{4} << 20U));
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}}) {
    lines.push_back(launch(settings, Waiting::Polls, bytes));
    lines.push_back(launch(settings, Waiting::Sleeps, bytes));
  }
  lines.push_back(middle(settings, [&] {
    return Line{"bare wake-up of the other process by an event descriptor", "us",
                measure_bare_wake(settings.launches).median_us};
  }));
  const HandOvers counts = measure_hand_overs(settings.task_us, settings.launches / 10);
  const auto tasks = static_cast<double>(counts.tasks);
  lines.push_back({fmt::format("sleeps of a rank's thread per task of {} us", settings.task_us), "",
                   static_cast<double>(counts.sleeps) / tasks});
  Line handed{"launches that followed a sleep, per task", "",
              static_cast<double>(counts.launches_after_sleep) / tasks};
  handed.most = 1;
  lines.push_back(handed);
  return lines;
}

void print(const Line& line) {
  const std::string against = line.compared()
                                  ? fmt::format("{:>10.2f} {:>6.2f}", line.reference, line.judged())
                                  : std::string(17, ' ');
  fmt::print("{:<70} {:>10.2f} {:<5} {}{}\n", line.name, line.value, line.unit, against,
             line.met() ? "" : "  goal missed");
}

nlohmann::json to_json(const Line& line) {
  nlohmann::json json{{"name", line.name}, {"unit", line.unit}, {"value", line.value}, {"met", line.met()}};
  if (line.compared()) json.update({{"reference", line.reference}, {"ratio", line.judged()}});
  if (!std::isnan(line.most)) json["most"] = line.most;
  if (!std::isnan(line.least)) json["least"] = line.least;
  return json;
}

int run(const Settings& settings) {
  fmt::print("{:<70} {:>10} {:<5} {:>10} {:>6}\n", "", "measured", "", "perftest", "ratio");
  bool met = true;
  nlohmann::json json = nlohmann::json::array();
  for (const Line& line : measure(settings)) {
    print(line);
    json.push_back(to_json(line));
    met = met && line.met();
  }
  if (!settings.json.empty()) {
    std::ofstream file(settings.json);
    file << json.dump(2) << '\n';
    if (!file.flush()) throw Error("json: cannot write " + settings.json);
  }
  return met ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace sluice::microbench

int main(int argc, char** argv) {
  sluice::microbench::Settings settings;
  CLI::App app("Measures the transport over UCX between two processes, against ucx_perftest");
  app.add_option("--turns", settings.turns, "Round trips of a latency")->capture_default_str();
  app.add_option("--messages", settings.messages, "Messages of a bandwidth")->capture_default_str();
  app.add_option("--window", settings.window, "Messages under way of a bandwidth")->capture_default_str();
  app.add_option("--launches", settings.launches, "Messages of a time to launch")->capture_default_str();
  app.add_option("--rounds", settings.rounds, "Measurements, of which the middle one counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--task", settings.task_us, "Microseconds of a task, where sleeps are counted")
      ->capture_default_str();
  app.add_option("--json", settings.json, "Also write the results to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return sluice::microbench::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
