#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "manifest_names.hpp"
#include "sluice/graphs/manifest.hpp"
#include "tensor_type.hpp"

namespace sluice::graphs {
namespace {

using Json = nlohmann::ordered_json;

std::span<const std::int64_t> extents_of(const TensorShape& shape) {
  return std::span(shape.extent).first(shape.rank);
}

Json shapes_json(const std::vector<TensorShape>& shapes) {
  Json list = Json::array();
  for (const TensorShape& shape : shapes) {
    Json extents = Json::array();
    for (const std::int64_t extent : extents_of(shape)) extents.push_back(extent);
    list.push_back(
        {{"type", name_of({shape.dtype_code, shape.dtype_bits})}, {"extents", std::move(extents)}});
  }
  return list;
}

Json verification_json(const CapturedTask& task) {
  if (!task.verified) return nullptr;
  const Verification& found = task.verification;
  return {{"max_abs_error", found.max_abs_error},
          {"max_rel_error", found.max_rel_error},
          {"bytes_different", found.bytes_different},
          {"deterministic", found.deterministic}};
}

Json task_json(const CapturedTask& task) {
  const NodeCounts& nodes = task.nodes;
  return {{"chunk", task.key.chunk},
          {"pass", std::string(1, letter(task.key.pass))},
          {"whole", task.key.whole},
          {"slot", task.key.slot},
          {"lane", kLaneNames[static_cast<std::size_t>(task.lane)]},
          {"bucket", task.bucket},
          {"shapes", shapes_json(task.shapes)},
          {"nodes",
           {{"kernels", nodes.kernels},
            {"copies", nodes.copies},
            {"fills", nodes.fills},
            {"host_functions", nodes.host_functions},
            {"allocations", nodes.allocations},
            {"others", nodes.others}}},
          {"graph_bytes", task.graph_bytes},
          {"capture_ns", task.capture.count()},
          {"instantiate_ns", task.instantiate.count()},
          {"verification", verification_json(task)}};
}

}  // namespace

std::string to_string(const TensorShape& shape) {
  return fmt::format("{}[{}]", name_of({shape.dtype_code, shape.dtype_bits}),
                     fmt::join(extents_of(shape), ", "));
}

std::string write_manifest(const Manifest& manifest) {
  Json tasks = Json::array();
  for (const CapturedTask& task : manifest.tasks) tasks.push_back(task_json(task));
  const Json document{{"format", kManifestFormat},
                      {"version", kManifestVersion},
                      {"rank", manifest.rank},
                      {"device", manifest.device},
                      {"slots", manifest.slots},
                      {"memory",
                       {{"slot_bytes", manifest.memory.saved_per_slot},
                        {"temporary_bytes", manifest.memory.temporary},
                        {"total_bytes", manifest.memory.total}}},
                      {"saved_bytes", manifest.saved_bytes},
                      {"saves_outside_slot", manifest.saves_outside_slot},
                      {"tasks", std::move(tasks)}};
  return document.dump(1, ' ', true, Json::error_handler_t::replace) + '\n';
}

}  // namespace sluice::graphs
