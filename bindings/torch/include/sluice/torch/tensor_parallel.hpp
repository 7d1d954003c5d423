#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "sluice/torch/gpt_config.hpp"

namespace sluice::gpt {

class ProcessGroup;

/// The ranks that share the layers of one chunk, as one of them sees it. Attention is divided by heads,
/// the MLP by hidden units; embedding, norms and output projection are on every member, equal bit
/// for bit, and computed by each.
struct TensorParallel {
  /// Null where the layers are not divided; outlives the chunk.
  ProcessGroup* group = nullptr;

  [[nodiscard]] std::uint32_t members() const noexcept;
  [[nodiscard]] std::uint32_t member() const noexcept;
};

/// Which part of a parameter a member has.
enum class Split : std::uint8_t {
  /// All of it, like every other member.
  Whole,
  /// Consecutive rows (elements of a vector).
  Rows,
  /// Consecutive rows of each third: the heads' queries, keys and values.
  HeadRows,
  /// Consecutive columns.
  Columns,
};

/// @throws ConfigError naming `tp` if the model cannot be divided over so many ranks
void require_divisible(const GptConfig& config, std::uint32_t members);

/// This member's part, contiguous.
[[nodiscard]] at::Tensor part_of(const at::Tensor& whole, Split split, const TensorParallel& tensor);

/// The whole again, as one contiguous tensor of the whole's elements.
/// @param parts of all members, in their order
[[nodiscard]] at::Tensor join_parts(std::span<const at::Tensor> parts, Split split);

}  // namespace sluice::gpt
