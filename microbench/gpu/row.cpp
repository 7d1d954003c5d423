#include "gpu/row.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace sluice::microbench {

Spread spread_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {samples.size(), samples.front(), samples[samples.size() / 2], samples[samples.size() * 99 / 100],
          samples.back()};
}

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::Met:
      return "met";
    case Verdict::NotMet:
      return "not met";
    case Verdict::NoGoal:
      return "no goal";
    case Verdict::NotJudged:
      return "not judged";
    case Verdict::NotRun:
      return "not run";
    case Verdict::Failed:
      return "failed";
  }
  return "unknown";
}

Verdict Row::verdict(bool counts) const {
  if (failed) return Verdict::Failed;
  if (!value) return Verdict::NotRun;
  if (!goal) return Verdict::NoGoal;
  if (!counts) return Verdict::NotJudged;
  const double judged = goal->of_magnitude ? std::abs(*value) : *value;
  return judged <= goal->most ? Verdict::Met : Verdict::NotMet;
}

Row median_row(std::string name, std::string unit, std::vector<double> samples, std::optional<Goal> goal) {
  Row row;
  row.name = std::move(name);
  row.unit = std::move(unit);
  row.samples = spread_of(std::move(samples));
  row.value = row.samples->median;
  row.goal = goal;
  return row;
}

Row not_run(std::string name, std::string unit, std::string reason) {
  Row row;
  row.name = std::move(name);
  row.unit = std::move(unit);
  row.reason = std::move(reason);
  return row;
}

void to_json(nlohmann::json& json, const Row& row) {
  json = {{"subject", row.subject}, {"name", row.name}, {"unit", row.unit}};
  if (row.value) json["value"] = *row.value;
  if (row.samples) {
    json["samples"] = {{"count", row.samples->count},
                       {"least", row.samples->least},
                       {"median", row.samples->median},
                       {"p99", row.samples->p99},
                       {"most", row.samples->most}};
  }
  if (row.reference) json["reference"] = {{"name", row.reference_name}, {"value", *row.reference}};
  if (row.goal) json["goal"] = {{"most", row.goal->most}, {"of_magnitude", row.goal->of_magnitude}};
  if (!row.reason.empty()) json["reason"] = row.reason;
  if (row.failed) json["failed"] = true;
}

void from_json(const nlohmann::json& json, Row& row) {
  row = {};
  json.at("subject").get_to(row.subject);
  json.at("name").get_to(row.name);
  json.at("unit").get_to(row.unit);
  if (json.contains("value")) row.value = json["value"].get<double>();
  if (json.contains("samples")) {
    const nlohmann::json& samples = json["samples"];
    row.samples = {samples.at("count").get<std::uint64_t>(), samples.at("least").get<double>(),
                   samples.at("median").get<double>(), samples.at("p99").get<double>(),
                   samples.at("most").get<double>()};
  }
  if (json.contains("reference")) {
    row.reference_name = json["reference"].at("name").get<std::string>();
    row.reference = json["reference"].at("value").get<double>();
  }
  if (json.contains("goal"))
    row.goal = {json["goal"].at("most").get<double>(), json["goal"].at("of_magnitude").get<bool>()};
  row.reason = json.value("reason", std::string());
  row.failed = json.value("failed", false);
}

}  // namespace sluice::microbench
