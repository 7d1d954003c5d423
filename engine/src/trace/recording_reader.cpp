#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "json_reading.hpp"
#include "recording_columns.hpp"
#include "sluice/error.hpp"
#include "sluice/trace/recording_json.hpp"

namespace sluice::trace {
namespace {

using nlohmann::json;
using reading::Entry;
using reading::Table;

constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMost64 = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMostIds = std::numeric_limits<std::uint16_t>::max();

Pipeline read_pipeline(const Entry& entry) {
  entry.expect_object({"chunks", "edges", "microbatches", "split"});
  const auto pair = [](const Entry& each) {
    if (each.size() != 2) each.fail("must be an array of two");
  };
  std::vector<ChunkPlacement> chunks;
  const Entry placements = entry.at("chunks");
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const Entry each = placements.at(i);
    pair(each);
    chunks.push_back(
        {static_cast<StageId>(each.at(std::size_t{0}).number(0, kMostIds)), each.at(1).boolean()});
  }
  std::vector<Edge> edges;
  const Entry pairs = entry.at("edges");
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Entry each = pairs.at(i);
    pair(each);
    edges.push_back({static_cast<Chunk>(each.at(std::size_t{0}).number(0, kMostIds)),
                     static_cast<Chunk>(each.at(1).number(0, kMostIds))});
    // The edges of a pipeline rise, so none of them can close a cycle.
    if (edges.back().from >= edges.back().to) each.fail("does not go from a lower chunk to a higher one");
  }
  const auto microbatches = static_cast<Microbatch>(entry.at("microbatches").number(1, kMost32));
  const bool split = entry.at("split").boolean();
  try {
    return {std::move(chunks), std::move(edges), microbatches, split};
  } catch (const ConfigError& error) {
    throw ConfigError(entry.path() + "." + error.field(),
                      std::string(error.what()).substr(error.field().size() + 2));
  }
}

std::vector<std::uint32_t> read_limits(const Entry& entry, std::uint32_t stages) {
  if (entry.size() != stages)
    entry.fail("must have an entry for each of " + std::to_string(stages) + " stages");
  std::vector<std::uint32_t> limits;
  for (std::size_t i = 0; i < stages; ++i)
    limits.push_back(static_cast<std::uint32_t>(entry.at(i).number(1, kMost32)));
  return limits;
}

Rules read_rules(const Entry& entry) {
  entry.expect_object({"ordered_accumulation", "hold_until_weight_grad", "reservation", "bounded_admission",
                       "mixed_at_limit", "weight_grad_makes_room"});
  return {entry.at("ordered_accumulation").boolean(), entry.at("hold_until_weight_grad").boolean(),
          entry.at("reservation").boolean(),          entry.at("bounded_admission").boolean(),
          entry.at("mixed_at_limit").boolean(),       entry.at("weight_grad_makes_room").boolean()};
}

/// Fills the tables of one run.
class TableReader {
 public:
  TableReader(const Entry& entry, RecordedRun& run) : entry_(entry), run_(run) {}

  void read() {
    read_iterations();
    read_tasks();
    read_messages();
    read_agreements();
    read_decisions();
  }

 private:
  void read_iterations() {
    const Table table(entry_.at("iterations"), columns::kIterations);
    for (std::size_t row = 0; row < table.rows(); ++row) {
      RecordedIteration each;
      each.iteration.index = table.number(row, 0, kMost64);
      each.iteration.kind = static_cast<IterationKind>(table.number(row, 1, 1));
      each.start = table.time(row, 2, kLatestRecorded);
      each.end = table.time(row, 3, kLatestRecorded);
      if (each.end < each.start) table.fail(row, 3, "is before its start");
      if (!known_.insert(each.iteration.index).second) table.fail(row, 0, "is there twice");
      run_.iterations.push_back(each);
    }
  }

  void read_tasks() {
    const Table table(entry_.at("tasks"), columns::kTasks);
    std::set<std::pair<std::uint64_t, Task>> seen;
    for (std::size_t row = 0; row < table.rows(); ++row) {
      RecordedTask each;
      each.iteration = iteration(table, row);
      each.task = task(table, row, 1);
      each.stage = run_.pipeline.stage_of(each.task.chunk);
      each.whole = whole(table, row, 5, each.task.pass);
      each.slot = static_cast<Slot>(table.number(row, 6, kMost32));
      each.start = table.time(row, 7, kLatestRecorded);
      each.end = table.time(row, 8, kLatestRecorded);
      each.noticed = table.time(row, 9, kLatestRecorded);
      if (each.end < each.start) table.fail(row, 8, "is before its start");
      if (each.noticed < each.end) table.fail(row, 9, "is before its end");
      if (!seen.emplace(each.iteration, each.task).second)
        table.fail(row, 4, to_string(each.task) + " is there twice in its iteration");
      run_.tasks.push_back(each);
    }
  }

  void read_messages() {
    const Table table(entry_.at("messages"), columns::kMessages);
    std::set<MessageId> seen;
    const std::size_t edges = run_.pipeline.edges().size();
    for (std::size_t row = 0; row < table.rows(); ++row) {
      RecordedMessage each;
      each.id.iteration = iteration(table, row);
      const std::uint64_t edge = table.number(row, 1, kMostIds);
      if (edge >= edges)
        table.fail(row, 1, "names edge " + std::to_string(edge) + " of " + std::to_string(edges));
      each.id.edge = static_cast<EdgeId>(edge);
      each.id.direction = static_cast<Direction>(table.number(row, 2, 1));
      each.id.microbatch = microbatch(table, row, 3);
      Time last{0};
      for (std::size_t column = 4; Time * time : {&each.sent, &each.offered, &each.accepted, &each.arrived}) {
        *time = table.time(row, column, kLatestRecorded);
        if (*time < last) table.fail(row, column, "is before what came before it");
        last = *time;
        ++column;
      }
      if (!seen.insert(each.id).second) table.fail(row, 3, to_string(each.id) + " is there twice");
      run_.messages.push_back(each);
    }
  }

  void read_agreements() {
    const Table table(entry_.at("agreements"), columns::kAgreements);
    for (std::size_t row = 0; row < table.rows(); ++row) {
      RecordedAgreement each;
      each.iteration = iteration(table, row);
      each.stage = stage(table, row, 1);
      each.asked = table.time(row, 2, kLatestRecorded);
      each.decided = table.time(row, 3, kLatestRecorded);
      if (each.decided < each.asked) table.fail(row, 3, "is before it was asked for");
      run_.agreements.push_back(each);
    }
  }

  void read_decisions() {
    const Table table(entry_.at("decisions"), columns::kDecisions);
    run_.decisions.resize(run_.pipeline.stages());
    for (std::size_t row = 0; row < table.rows(); ++row) {
      Decision each;
      each.iteration = iteration(table, row);
      each.task = task(table, row, 1);
      each.whole = whole(table, row, 5, each.task.pass);
      each.slot = static_cast<Slot>(table.number(row, 6, kMost32));
      each.at = table.time(row, 7, kLatestRecorded);
      each.focus = table.number(row, 8, 1) != 0;
      for (std::size_t pass = 0; pass < kPasses; ++pass)
        each.runnable[pass] = static_cast<std::uint32_t>(table.number(row, 9 + pass, kMost32));
      each.held_by_limit = static_cast<std::uint32_t>(table.number(row, 12, kMost32));
      each.held_by_order = static_cast<std::uint32_t>(table.number(row, 13, kMost32));
      run_.decisions[run_.pipeline.stage_of(each.task.chunk)].push_back(each);
    }
  }

  std::uint64_t iteration(const Table& table, std::size_t row) const {
    const std::uint64_t index = table.number(row, 0, kMost64);
    if (!known_.contains(index))
      table.fail(row, 0, std::to_string(index) + " is not among the recorded iterations");
    return index;
  }

  StageId stage(const Table& table, std::size_t row, std::size_t column) const {
    const std::uint64_t stage = table.number(row, column, kMostIds);
    if (stage >= run_.pipeline.stages()) {
      table.fail(row, column,
                 "names stage " + std::to_string(stage) + " of " + std::to_string(run_.pipeline.stages()));
    }
    return static_cast<StageId>(stage);
  }

  Microbatch microbatch(const Table& table, std::size_t row, std::size_t column) const {
    return static_cast<Microbatch>(table.number(row, column, run_.pipeline.microbatches() - 1));
  }

  /// From four columns: stage, pass, chunk, microbatch.
  Task task(const Table& table, std::size_t row, std::size_t column) const {
    const StageId on = stage(table, row, column);
    const std::uint64_t chunk = table.number(row, column + 2, kMostIds);
    if (chunk >= run_.pipeline.chunks()) {
      table.fail(row, column + 2,
                 "names chunk " + std::to_string(chunk) + " of " + std::to_string(run_.pipeline.chunks()));
    }
    const Task task{microbatch(table, row, column + 3), static_cast<Chunk>(chunk),
                    static_cast<Pass>(table.number(row, column + 1, kPasses - 1))};
    if (run_.pipeline.stage_of(task.chunk) != on) {
      table.fail(row, column,
                 "chunk " + std::to_string(chunk) + " is on stage " +
                     std::to_string(run_.pipeline.stage_of(task.chunk)) + ", not " + std::to_string(on));
    }
    return task;
  }

  static bool whole(const Table& table, std::size_t row, std::size_t column, Pass pass) {
    const bool whole = table.number(row, column, 1) != 0;
    if (whole && pass != Pass::Backward) table.fail(row, column, "only a backward can be whole");
    return whole;
  }

  Entry entry_;
  RecordedRun& run_;
  std::set<std::uint64_t> known_;
};

RecordedRun read_run(const Entry& entry) {
  entry.expect_object({"method", "pipeline", "limits", "rules", "launch_ahead", "lost", "iterations", "tasks",
                       "messages", "agreements", "decisions"});
  const std::string method = entry.at("method").text();
  if (method.empty()) entry.at("method").fail("is empty");
  Pipeline pipeline = read_pipeline(entry.at("pipeline"));
  std::vector<std::uint32_t> limits = read_limits(entry.at("limits"), pipeline.stages());
  RecordedRun run{method, std::move(pipeline), std::move(limits), read_rules(entry.at("rules"))};
  run.launch_ahead = static_cast<std::uint32_t>(entry.at("launch_ahead").number(1, kMostLaunchAhead));
  run.lost = entry.at("lost").number(0, kMost64);
  TableReader(entry, run).read();
  return run;
}

json parse(std::string_view bytes) {
  try {
    return json::parse(bytes);
  } catch (const json::exception& error) {
    // nlohmann's messages begin with `[json.exception.parse_error.101] `.
    const std::string text = error.what();
    const std::size_t end = text.find("] ");
    throw ConfigError("recording",
                      "is not JSON: " + (end == std::string::npos ? text : text.substr(end + 2)));
  }
}

}  // namespace

Recording read_recording(std::string_view bytes) {
  const json document = parse(bytes);
  const Entry top(document, "");
  if (!document.is_object() || !document.contains("format") || document["format"] != kRecordingFormat)
    throw ConfigError("format", "is not that of a recording, \"" + std::string(kRecordingFormat) + "\"");
  if (top.at("version").number(0, kMost64) != kRecordingVersion)
    top.at("version").fail("must be " + std::to_string(kRecordingVersion));
  top.expect_object({"format", "version", "settings", "runs"});
  if (!top.at("settings").value().is_object()) top.at("settings").fail("must be an object");
  Recording recording;
  recording.settings = top.at("settings").value().dump(-1, ' ', false, json::error_handler_t::replace);
  const Entry runs = top.at("runs");
  if (runs.size() == 0) runs.fail("there are none");
  std::set<std::string> names;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    recording.runs.push_back(read_run(runs.at(i)));
    if (!names.insert(recording.runs.back().method).second)
      runs.at(i).at("method").fail("'" + recording.runs.back().method + "' is there twice");
  }
  return recording;
}

}  // namespace sluice::trace
