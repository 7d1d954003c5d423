#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "capture_check_observer.hpp"

namespace torch::jit {
struct Graph;
struct Module;
struct Node;
struct Source;
struct SourceRange;
}  // namespace torch::jit

namespace sluice::capture {

/// The code of a TorchScript module: where an operator that runs is in it.
class ModuleCode {
 public:
  explicit ModuleCode(const torch::jit::Module& module);

  /// Of what TorchScript's interpreter runs in this thread.
  [[nodiscard]] Place current_place() const;
  /// `file:line` at which a method of the class changes that attribute; empty if none does.
  [[nodiscard]] std::string writer_of(const std::string& class_name, const std::string& attribute) const;

  /// Has the code use the checked device where it names a CUDA device.
  /// Before the module has run.
  static void use_checked_device(const torch::jit::Module& module);

 private:
  using Site = std::tuple<const torch::jit::Source*, std::size_t, std::size_t>;

  void add(torch::jit::Node& node);

  /// By the place of a call: path of the module that is called from the one whose code calls it.
  std::map<Site, std::string> callees_;
  std::map<std::pair<std::string, std::string>, std::string> writers_;
};

}  // namespace sluice::capture
