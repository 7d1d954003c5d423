#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/apart.hpp"
#include "gpu/report.hpp"
#include "gpu/subjects.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/error.hpp"

/// What Sluice's use of a device takes, and whether it keeps to its goals.
namespace sluice::microbench {
namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  Effort effort;
  std::vector<std::string> only;
  bool nccl = false;
  /// In seconds.
  std::optional<std::uint32_t> limit;
  std::string checks;
  std::string json;
  std::string markdown;
};

struct Subject {
  /// As `--only` has it.
  const char* word;
  const char* title;
  std::vector<Row> (*measure)(const Effort& effort);
};

constexpr Subject kSubjects[] = {
    {"graphs", "Launching graphs", &measure_graph_launch},
    {"completion", "Seeing the end of a task", &measure_completion},
    {"gap", "Between two tasks", &measure_task_gap},
    {"ipc", "Pulling by CUDA IPC", &measure_ipc_bandwidth},
    {"put", "Putting by NCCL", &measure_put_bandwidth},
    {"agreement", "Agreement of two ranks", &measure_agreement},
    {"agreement-ucx", "Agreement of two ranks over UCX", &measure_ucx_agreement},
    {"agreement-nccl", "Agreement of two ranks over NCCL", &measure_nccl_agreement},
    {"pipeline", "Four emulated stages on the device", &measure_emulated_pipeline},
};

constexpr std::chrono::seconds kLongestSubject{90};
constexpr std::string_view kFakeDevice = "Fake CUDA device";

std::vector<std::string> words() {
  std::vector<std::string> all;
  for (const Subject& subject : kSubjects) all.emplace_back(subject.word);
  return all;
}

DeviceNote ask_device() {
  return run_apart(
      [] {
        const cuda::DeviceInfo info = cuda::use_device(0);
        DeviceNote note;
        note.name = info.name;
        note.compute_capability = fmt::format("{}.{}", info.compute_major, info.compute_minor);
        note.driver_version = info.driver_version;
        note.runtime_version = info.runtime_version;
        note.memory_bytes = info.memory_bytes;
        note.real = !std::string_view(info.name).starts_with(kFakeDevice);
        return nlohmann::json(note);
      },
      kLongestSubject);
}

/// @param until no subject is begun or goes on after
std::vector<Row> measure(const Subject& subject, const Effort& effort, Clock::time_point until) {
  std::vector<Row> rows;
  try {
    const auto left = std::chrono::duration_cast<std::chrono::seconds>(until - Clock::now());
    if (left.count() < 1) throw Error("no time left");
    fmt::print(stderr, "measuring: {}\n", subject.title);
    rows = run_apart([&] { return nlohmann::json(subject.measure(effort)); }, std::min(left, kLongestSubject))
               .get<std::vector<Row>>();
  } catch (const std::exception& error) {
    rows.push_back(not_run("the whole subject", "", error.what()));
    rows.back().failed = true;
  }
  for (Row& row : rows) row.subject = subject.title;
  return rows;
}

bool wanted(const Subject& subject, const std::vector<std::string>& only) {
  return only.empty() || std::find(only.begin(), only.end(), subject.word) != only.end();
}

/// So that nothing is measured for a report that then cannot be kept.
void expect_writable(const std::string& option, const std::string& path) {
  if (path.empty()) return;
  if (!std::ofstream(path, std::ios::app)) throw ConfigError(option, "cannot write " + path);
}

void write(const std::string& option, const std::string& path, const std::string& text) {
  if (path.empty()) return;
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw ConfigError(option, "cannot write " + path);
}

/// For scripts: the reason why not on standard output.
int say_whether_nccl() {
  const std::string reason = run_apart([] { return nlohmann::json(why_no_nccl()); }, kLongestSubject);
  if (!reason.empty()) fmt::print("{}\n", reason);
  return reason.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}

int run(const Settings& settings) {
  if (settings.nccl) return say_whether_nccl();
  const auto until =
      settings.limit ? Clock::now() + std::chrono::seconds(*settings.limit) : Clock::time_point::max();
  Report report;
  if (!settings.checks.empty()) report.checks = read_checks(settings.checks);
  report.device = ask_device();
  report.quick = settings.effort.quick;
  expect_writable("json", settings.json);
  expect_writable("markdown", settings.markdown);
  for (const Subject& subject : kSubjects) {
    if (!wanted(subject, settings.only)) continue;
    for (Row& row : measure(subject, settings.effort, until)) report.rows.push_back(std::move(row));
  }
  fmt::print("{}", to_text(report));
  write("json", settings.json,
        to_json(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  write("markdown", settings.markdown, to_markdown(report));
  return report.good() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace sluice::microbench

int main(int argc, char** argv) {
  sluice::microbench::Settings settings;
  CLI::App app("Measures what Sluice's use of a GPU takes");
  app.add_flag("--quick", settings.effort.quick, "Few measurements, to see that everything works");
  app.add_option("--seed", settings.effort.seed, "Of the emulated stages' times and delays")
      ->capture_default_str();
  app.add_option("--only", settings.only, "Subjects, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(sluice::microbench::words()));
  app.add_flag("--nccl", settings.nccl, "Only say whether two ranks on the device can use NCCL, or why not");
  app.add_option("--limit", settings.limit,
                 "End after so many seconds; what was not reached by then has failed")
      ->check(CLI::PositiveNumber);
  app.add_option("--checks", settings.checks, "Outcomes of test programs, to be part of the report");
  app.add_option("--json", settings.json, "Also write the report to this file");
  app.add_option("--markdown", settings.markdown, "Also write its tables to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return sluice::microbench::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
