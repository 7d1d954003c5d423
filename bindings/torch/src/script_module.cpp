#include "script_module.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>

#include "sluice/error.hpp"

namespace sluice::capture {
namespace {

namespace jit = torch::jit;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

jit::Module load_module(const std::string& path, const std::function<jit::Module(const std::string&)>& load) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) throw ConfigError("module", path + " does not exist");
  if (std::filesystem::is_directory(path, ignored)) throw ConfigError("module", path + " is a folder");
  try {
    jit::Module module = load(path);
    if (!module.find_method("forward")) throw ConfigError("module", path + " has no method forward");
    return module;
  } catch (const c10::Error& error) {
    throw ConfigError("module", fmt::format("{} is not a TorchScript file that can be loaded: {}", path,
                                            first_line(error.what_without_backtrace())));
  }
}

void check_inputs(const jit::Module& module, const std::vector<Input>& inputs) {
  const c10::FunctionSchema& schema = module.get_method("forward").function().getSchema();
  const std::vector<c10::Argument>& arguments = schema.arguments();
  std::size_t needed = 0;
  std::string names;
  // The first is the module itself.
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (!arguments[i].default_value()) ++needed;
    names += fmt::format("{}{}: {}", i > 1 ? ", " : "", arguments[i].name(), arguments[i].type()->repr_str());
  }
  if (inputs.size() < needed || inputs.size() + 1 > arguments.size())
    throw ConfigError("input", fmt::format("forward({}) takes {}, {} given", names, needed, inputs.size()));
}

c10::ScalarType type_of(const Input& tensor) {
  static const std::map<std::string_view, c10::ScalarType> types = {
      {"float32", c10::kFloat},     {"float64", c10::kDouble}, {"float16", c10::kHalf},
      {"bfloat16", c10::kBFloat16}, {"int64", c10::kLong},     {"int32", c10::kInt},
      {"int16", c10::kShort},       {"int8", c10::kChar},      {"uint8", c10::kByte},
      {"bool", c10::kBool}};
  return types.at(tensor.dtype);
}

}  // namespace sluice::capture
