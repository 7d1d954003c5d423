#include "capture_check_code.hpp"

#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/source_range.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <functional>
#include <vector>

#include "capture_check_device.hpp"

namespace sluice::capture {
namespace {

namespace jit = torch::jit;
namespace prim = c10::prim;
namespace aten = c10::aten;

/// `b` where `a` is empty.
std::string join(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + "." + b;
}

void for_each_node(jit::Block* block, const std::function<void(jit::Node&)>& visit) {
  // The visitor may put others in the place of a node.
  const std::vector<jit::Node*> nodes(block->nodes().begin(), block->nodes().end());
  for (jit::Node* node : nodes) {
    for (jit::Block* inner : node->blocks()) for_each_node(inner, visit);
    visit(*node);
  }
}

void for_each_node(const jit::Module& module, const std::function<void(jit::Node&)>& visit) {
  for (jit::Function* function : module._ivalue()->compilation_unit()->get_functions())
    if (auto* graph_function = jit::tryToGraphFunction(*function))
      for_each_node(graph_function->graph()->block(), visit);
}

/// Path from the module whose method this is to the one that a value holds.
std::string path_of(jit::Value* value) {
  jit::Node* node = value->node();
  return node->kind() == prim::GetAttr ? join(path_of(node->input(0)), node->s(c10::attr::name)) : "";
}

std::optional<std::pair<std::string, std::size_t>> line_of(const jit::SourceRange& range) {
  // Code that was loaded knows what it was compiled from.
  const auto original = range.findSourceRangeThatGenerated();
  const auto place = (original ? *original : range).file_line_col();
  // What torch itself adds to the code is on no line.
  if (!place || std::get<0>(*place).empty()) return std::nullopt;
  return std::pair(std::get<0>(*place), std::get<1>(*place));
}

std::string text_of(const std::pair<std::string, std::size_t>& line) {
  return fmt::format("{}:{}", line.first, line.second);
}

bool is_torch_file(const std::string& file) { return file.find("/torch/") != std::string::npos; }

/// Changes a list or a dictionary in place.
bool changes_container(const jit::Node& node) {
  const auto type = node.inputs().empty() ? c10::TypeKind::NoneType : node.input(0)->type()->kind();
  if (type != c10::TypeKind::ListType && type != c10::TypeKind::DictType) return false;
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr || schema->arguments().empty()) return false;
  const c10::AliasInfo* alias = schema->arguments().front().alias_info();
  return alias != nullptr && alias->isWrite();
}

std::string on_checked_device(const std::string& device) {
  return device.starts_with("cuda") ? kCheckedDevice.str() : device;
}

void use_checked_device_at(jit::Node& node) {
  jit::Graph& graph = *node.owningGraph();
  const jit::WithInsertPoint before(&node);
  if (node.kind() == prim::Constant && node.output()->type()->kind() == c10::TypeKind::DeviceObjType) {
    node.s_(c10::attr::value, on_checked_device(node.s(c10::attr::value)));
  } else if (node.kind() == aten::device && node.input(0)->node()->kind() == prim::Constant &&
             node.input(0)->type()->kind() == c10::TypeKind::StringType) {
    const std::string name = node.input(0)->node()->s(c10::attr::value);
    node.replaceInput(0, graph.insertConstant(on_checked_device(name)));
  } else if (node.kind() == c10::Symbol::fromQualString("aten::cuda")) {
    node.output()->replaceAllUsesWith(graph.insert(aten::to, {node.input(0), kCheckedDevice}));
  } else if (node.kind() == prim::is_cuda) {
    jit::Value* on_host = graph.insert(c10::Symbol::fromQualString("prim::is_cpu"), {node.input(0)});
    node.output()->replaceAllUsesWith(graph.insert(aten::__not__, {on_host}));
  }
}

}  // namespace

ModuleCode::ModuleCode(const jit::Module& module) {
  for_each_node(module, [this](jit::Node& node) { add(node); });
}

void ModuleCode::add(jit::Node& node) {
  const jit::SourceRange range = node.sourceRange();
  if (node.kind() == prim::CallMethod) {
    callees_.insert_or_assign({range.source().get(), range.start(), range.end()}, path_of(node.input(0)));
    return;
  }
  jit::Value* object = nullptr;
  std::string attribute;
  if (node.kind() == prim::SetAttr) {
    object = node.input(0);
    attribute = node.s(c10::attr::name);
  } else if (changes_container(node) && node.input(0)->node()->kind() == prim::GetAttr) {
    object = node.input(0)->node()->input(0);
    attribute = node.input(0)->node()->s(c10::attr::name);
  }
  const auto type = object != nullptr ? object->type()->cast<c10::ClassType>() : nullptr;
  auto line = line_of(range);
  if (!line && node.inputs().size() > 1) line = line_of(node.input(1)->node()->sourceRange());
  if (type && type->name() && line) {
    writers_.emplace(std::pair(type->name()->qualifiedName(), attribute), text_of(*line));
  }
}

Place ModuleCode::current_place() const {
  // The innermost first; others are at their calls.
  const std::vector<jit::StackEntry> stack = jit::currentCallstack();
  Place place;
  for (std::size_t i = stack.size(); i-- > 1;) {
    const jit::SourceRange& range = stack[i].range;
    const auto callee = callees_.find({range.source().get(), range.start(), range.end()});
    if (callee != callees_.end()) place.module = join(place.module, callee->second);
  }
  for (const jit::StackEntry& entry : stack) {
    const auto line = line_of(entry.range);
    if (!line) continue;
    if (place.source.empty() || !is_torch_file(line->first)) place.source = text_of(*line);
    if (!is_torch_file(line->first)) break;
  }
  return place;
}

std::string ModuleCode::writer_of(const std::string& class_name, const std::string& attribute) const {
  const auto writer = writers_.find({class_name, attribute});
  return writer == writers_.end() ? "" : writer->second;
}

void ModuleCode::use_checked_device(const jit::Module& module) {
  for_each_node(module, [](jit::Node& node) { use_checked_device_at(node); });
}

}  // namespace sluice::capture
