#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "json_reading.hpp"
#include "manifest_names.hpp"
#include "sluice/error.hpp"
#include "sluice/graphs/manifest.hpp"
#include "tensor_type.hpp"

namespace sluice::graphs {
namespace {

using trace::reading::Entry;

constexpr const char* kSavesOutsideSlot = "saves_outside_slot";
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;
constexpr std::uint64_t kLongest = 1'000'000'000'000'000;
constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();

std::uint32_t number32(const Entry& entry) { return static_cast<std::uint32_t>(entry.number(0, kMost32)); }

double error_of(const Entry& entry) {
  if (!entry.value().is_number()) entry.fail("must be a number");
  const double value = entry.value().get<double>();
  if (!std::isfinite(value) || value < 0) entry.fail("must be a number of at least 0");
  return value;
}

Pass pass_of(const Entry& entry) {
  const std::string text = entry.text();
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad}) {
    if (text == std::string(1, letter(pass))) return pass;
  }
  entry.fail("must be F, B or W");
}

Lane lane_of(const Entry& entry) {
  const std::string text = entry.text();
  const auto* const found = std::ranges::find(kLaneNames, text);
  if (found == kLaneNames.end()) entry.fail("must be compute, weight_grad or reduction");
  return static_cast<Lane>(found - kLaneNames.begin());
}

TensorShape shape_of(const Entry& entry) {
  entry.expect_object({"type", "extents"});
  const auto type = type_named(entry.at("type").text());
  if (!type.has_value()) entry.at("type").fail("must be the name of an element type, such as float32");
  const Entry extents = entry.at("extents");
  if (extents.size() > TensorShape::kMaxRank)
    extents.fail("must have at most " + std::to_string(TensorShape::kMaxRank) + " entries");
  TensorShape shape;
  shape.dtype_code = type->code;
  shape.dtype_bits = type->bits;
  shape.rank = static_cast<std::uint8_t>(extents.size());
  for (std::size_t i = 0; i < extents.size(); ++i)
    shape.extent[i] = static_cast<std::int64_t>(extents.at(i).number(0, kMostBytes));
  return shape;
}

NodeCounts nodes_of(const Entry& entry) {
  entry.expect_object({"kernels", "copies", "fills", "host_functions", "allocations", "others"});
  return {number32(entry.at("kernels")),     number32(entry.at("copies")),
          number32(entry.at("fills")),       number32(entry.at("host_functions")),
          number32(entry.at("allocations")), number32(entry.at("others"))};
}

Verification verification_of(const Entry& entry) {
  entry.expect_object({"max_abs_error", "max_rel_error", "bytes_different", "deterministic"});
  return {error_of(entry.at("max_abs_error")), error_of(entry.at("max_rel_error")),
          entry.at("bytes_different").number(0, kMostBytes), entry.at("deterministic").boolean()};
}

CapturedTask task_of(const Entry& entry, std::uint32_t slots, std::size_t chunks) {
  entry.expect_object({"chunk", "pass", "whole", "slot", "lane", "bucket", "shapes", "nodes", "graph_bytes",
                       "capture_ns", "instantiate_ns", "verification"});
  CapturedTask task;
  task.key.chunk = static_cast<Chunk>(entry.at("chunk").number(0, std::numeric_limits<Chunk>::max()));
  task.key.pass = pass_of(entry.at("pass"));
  task.key.whole = entry.at("whole").boolean();
  if (task.key.whole && task.key.pass != Pass::Backward) entry.at("whole").fail("is for a backward only");
  if (slots == 0 || chunks == 0) entry.fail("cannot be: the stage has no slot or no chunk");
  task.key.slot = static_cast<Slot>(entry.at("slot").number(0, slots - 1));
  task.lane = lane_of(entry.at("lane"));
  task.bucket = number32(entry.at("bucket"));
  const Entry shapes = entry.at("shapes");
  for (std::size_t i = 0; i < shapes.size(); ++i) task.shapes.push_back(shape_of(shapes.at(i)));
  task.nodes = nodes_of(entry.at("nodes"));
  task.graph_bytes = entry.at("graph_bytes").number(0, kMostBytes);
  task.capture = Duration(static_cast<Duration::rep>(entry.at("capture_ns").number(0, kLongest)));
  task.instantiate = Duration(static_cast<Duration::rep>(entry.at("instantiate_ns").number(0, kLongest)));
  const Entry verification = entry.at("verification");
  task.verified = !verification.value().is_null();
  if (task.verified) task.verification = verification_of(verification);
  return task;
}

void read_tasks(const Entry& entries, Manifest& manifest) {
  std::set<std::tuple<CaptureKey, Lane, std::uint32_t>> known;
  std::set<Chunk> chunks;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    CapturedTask task = task_of(entries.at(i), manifest.slots, manifest.saved_bytes.size());
    if (!known.emplace(task.key, task.lane, task.bucket).second)
      entries.at(i).fail(to_string(task.key) + " is there twice with this lane and bucket");
    chunks.insert(task.key.chunk);
    if (chunks.size() > manifest.saved_bytes.size())
      entries.at(i).at("chunk").fail("is one more than there are saved_bytes");
    manifest.tasks.push_back(std::move(task));
  }
}

/// A flag for each chunk, or none.
std::vector<bool> flags_of(const Entry& entries, std::size_t chunks) {
  std::vector<bool> flags;
  for (std::size_t i = 0; i < entries.size(); ++i) flags.push_back(entries.at(i).boolean());
  if (!flags.empty() && flags.size() != chunks)
    entries.fail("must have an entry for each of saved_bytes, or none");
  return flags;
}

nlohmann::json parsed(std::string_view bytes) {
  try {
    return nlohmann::json::parse(bytes);
  } catch (const nlohmann::json::parse_error& error) {
    throw ConfigError("manifest", "is not JSON, at byte " + std::to_string(error.byte));
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError("manifest", std::string("is not JSON: ") + error.what());
  }
}

}  // namespace

Manifest read_manifest(std::string_view bytes) {
  nlohmann::json document = parsed(bytes);
  if (!document.is_object()) throw ConfigError("manifest", "must be an object");
  // Files of earlier versions do not have it.
  document.emplace(kSavesOutsideSlot, nlohmann::json::array());
  const Entry root(document, "");
  if (root.at("format").text() != kManifestFormat)
    root.at("format").fail("must be " + std::string(kManifestFormat));
  (void)root.at("version").number(kManifestVersion, kManifestVersion);
  root.expect_object(
      {"format", "version", "rank", "device", "slots", "memory", "saved_bytes", kSavesOutsideSlot, "tasks"});
  Manifest manifest;
  manifest.rank = number32(root.at("rank"));
  manifest.device = root.at("device").text();
  manifest.slots = number32(root.at("slots"));
  const Entry memory = root.at("memory");
  memory.expect_object({"slot_bytes", "temporary_bytes", "total_bytes"});
  manifest.memory.saved_per_slot = memory.at("slot_bytes").number(0, kMostBytes);
  manifest.memory.temporary = memory.at("temporary_bytes").number(0, kMostBytes);
  manifest.memory.total = memory.at("total_bytes").number(0, kMostBytes);
  const Entry saved = root.at("saved_bytes");
  for (std::size_t i = 0; i < saved.size(); ++i)
    manifest.saved_bytes.push_back(saved.at(i).number(0, kMostBytes));
  manifest.saves_outside_slot = flags_of(root.at(kSavesOutsideSlot), manifest.saved_bytes.size());
  read_tasks(root.at("tasks"), manifest);
  return manifest;
}

}  // namespace sluice::graphs
