#include "method/method_list.hpp"

#include <fmt/format.h>

#include <set>

#include "sluice/error.hpp"

namespace sluice::tools {

std::vector<Method> make_methods(const std::vector<std::string>& names, bool equal_memory,
                                 MethodSettings settings,
                                 const std::function<Pipeline(const std::string& name)>& pipeline_of) {
  if (names.empty()) throw ConfigError("methods", "name at least one");
  if (equal_memory && settings.limit_given)
    throw ConfigError("equal-memory", "the first method sets the limits: give no other");
  std::set<std::string> seen;
  std::vector<Method> methods;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) throw ConfigError("methods", fmt::format("'{}' is named twice", name));
    const Pipeline pipeline = pipeline_of(name);
    methods.emplace_back(name, pipeline, settings);
    if (!equal_memory || methods.size() > 1) continue;
    settings = methods[0].equal_memory();
    methods[0] = Method(name, pipeline, settings);
  }
  return methods;
}

}  // namespace sluice::tools
