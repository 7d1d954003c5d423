#include "sluice/torch/tensor_parallel.hpp"

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "sluice/error.hpp"
#include "sluice/torch/process_group.hpp"

namespace sluice::gpt {
namespace {

constexpr std::int64_t kQkv = 3;

/// Width, and with it the MLP's hidden units, is a multiple of the heads.
void require_divisible_heads(std::uint32_t heads, std::uint32_t members, const char* whose) {
  if (heads % members == 0) return;
  throw ConfigError("tp", std::to_string(heads) + " heads" + whose + " cannot be divided over " +
                              std::to_string(members) + " ranks");
}

/// A parameter seen as [blocks, members, elements]: a member has its entry of each block.
std::int64_t blocks_of(const at::Tensor& tensor, Split split) {
  if (split == Split::Columns) return tensor.size(0);
  return split == Split::HeadRows ? kQkv : 1;
}

}  // namespace

std::uint32_t TensorParallel::members() const noexcept { return group == nullptr ? 1 : group->size(); }
std::uint32_t TensorParallel::member() const noexcept { return group == nullptr ? 0 : group->index(); }

void require_divisible(const GptConfig& config, std::uint32_t members) {
  if (members == 0) throw ConfigError("tp", "must be at least 1");
  require_divisible_heads(config.heads, members, "");
  if (config.encoder) require_divisible_heads(config.encoder->heads, members, " of the encoder");
}

at::Tensor part_of(const at::Tensor& whole, Split split, const TensorParallel& tensor) {
  if (split == Split::Whole) return whole;
  std::vector<std::int64_t> shape = whole.sizes().vec();
  shape[split == Split::Columns ? 1 : 0] /= tensor.members();
  return whole.view({blocks_of(whole, split), tensor.members(), -1})
      .select(1, tensor.member())
      .reshape(shape)
      .clone(at::MemoryFormat::Contiguous);
}

at::Tensor join_parts(std::span<const at::Tensor> parts, Split split) {
  const at::Tensor& first = parts.front();
  if (split == Split::Whole) return first;
  std::vector<at::Tensor> blocks;
  for (const at::Tensor& part : parts) blocks.push_back(part.view({blocks_of(first, split), -1}));
  return at::stack(blocks, 1).contiguous();
}

}  // namespace sluice::gpt
