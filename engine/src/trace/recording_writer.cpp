#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "recording_columns.hpp"
#include "sluice/error.hpp"
#include "sluice/trace/recording_json.hpp"

namespace sluice::trace {
namespace {

using nlohmann::json;

/// Rows are written as they come: a tree of them would take many times the memory of the text.
class TableText {
 public:
  TableText(std::string& out, std::string_view name, std::span<const std::string_view> columns) : out_(out) {
    fmt::format_to(std::back_inserter(out_), R"(,"{}":{{"columns":{},"rows":[)", name,
                   json(std::vector<std::string>(columns.begin(), columns.end())).dump());
  }
  ~TableText() { out_ += "]}"; }
  TableText(const TableText&) = delete;
  TableText& operator=(const TableText&) = delete;

  template <typename... Cells>
  void row(const Cells&... cells) {
    out_ += first_row_ ? "[" : ",[";
    first_row_ = false;
    bool first = true;
    (cell(cells, first), ...);
    out_ += "]";
  }

 private:
  template <typename Cell>
  void cell(const Cell& value, bool& first) {
    if (!first) out_ += ",";
    first = false;
    if constexpr (std::is_same_v<Cell, Time>) {
      fmt::format_to(std::back_inserter(out_), "{}", value.count());
    } else {
      fmt::format_to(std::back_inserter(out_), "{}", static_cast<std::uint64_t>(value));
    }
  }

  std::string& out_;
  bool first_row_ = true;
};

json head_of(const RecordedRun& run) {
  json chunks = json::array();
  for (std::size_t chunk = 0; chunk < run.pipeline.chunks(); ++chunk) {
    const auto id = static_cast<Chunk>(chunk);
    chunks.push_back({run.pipeline.stage_of(id), run.pipeline.splittable(id)});
  }
  json edges = json::array();
  for (const Edge& edge : run.pipeline.edges()) edges.push_back({edge.from, edge.to});
  return {{"method", run.method},
          {"pipeline",
           {{"chunks", std::move(chunks)},
            {"edges", std::move(edges)},
            {"microbatches", run.pipeline.microbatches()},
            {"split", run.pipeline.split_backward()}}},
          {"limits", run.limits},
          {"rules",
           {{"ordered_accumulation", run.rules.ordered_accumulation},
            {"hold_until_weight_grad", run.rules.hold_until_weight_grad},
            {"reservation", run.rules.reservation},
            {"bounded_admission", run.rules.bounded_admission},
            {"mixed_at_limit", run.rules.mixed_at_limit},
            {"weight_grad_makes_room", run.rules.weight_grad_makes_room}}},
          {"launch_ahead", run.launch_ahead},
          {"lost", run.lost}};
}

void write_decisions(std::string& out, const RecordedRun& run) {
  TableText table(out, "decisions", columns::kDecisions);
  for (std::size_t stage = 0; stage < run.decisions.size(); ++stage) {
    for (const Decision& each : run.decisions[stage]) {
      table.row(each.iteration, stage, each.task.pass, each.task.chunk, each.task.microbatch, each.whole,
                each.slot, each.at, each.focus, each.runnable[0], each.runnable[1], each.runnable[2],
                each.held_by_limit, each.held_by_order);
    }
  }
}

void write_tables(std::string& out, const RecordedRun& run) {
  {
    TableText table(out, "iterations", columns::kIterations);
    for (const RecordedIteration& each : run.iterations)
      table.row(each.iteration.index, each.iteration.kind, each.start, each.end);
  }
  {
    TableText table(out, "tasks", columns::kTasks);
    for (const RecordedTask& each : run.tasks) {
      table.row(each.iteration, each.stage, each.task.pass, each.task.chunk, each.task.microbatch, each.whole,
                each.slot, each.start, each.end, each.noticed);
    }
  }
  {
    TableText table(out, "messages", columns::kMessages);
    for (const RecordedMessage& each : run.messages) {
      table.row(each.id.iteration, each.id.edge, each.id.direction, each.id.microbatch, each.sent,
                each.offered, each.accepted, each.arrived);
    }
  }
  {
    TableText table(out, "agreements", columns::kAgreements);
    for (const RecordedAgreement& each : run.agreements)
      table.row(each.iteration, each.stage, each.asked, each.decided);
  }
  write_decisions(out, run);
}

}  // namespace

std::string write_recording(const Recording& recording) {
  const json settings = json::parse(recording.settings, nullptr, false);
  if (!settings.is_object()) throw Error("the settings of a recording must be a JSON object");
  std::string out =
      fmt::format(R"({{"format":"{}","version":{},"settings":{},"runs":[)", kRecordingFormat,
                  kRecordingVersion, settings.dump(-1, ' ', false, json::error_handler_t::replace));
  for (std::size_t i = 0; i < recording.runs.size(); ++i) {
    const std::string head = head_of(recording.runs[i]).dump(-1, ' ', false, json::error_handler_t::replace);
    out += i == 0 ? "" : ",";
    // Without its last brace: the tables are entries of the same object.
    out.append(head, 0, head.size() - 1);
    write_tables(out, recording.runs[i]);
    out += "}";
  }
  return out + "]}\n";
}

}  // namespace sluice::trace
