#include "schedule_action.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace sluice {
namespace {

constexpr std::array<std::string_view, 7> kLeftOut = {"SEND_F",  "RECV_F",  "SEND_B",     "RECV_B",
                                                      "UNSHARD", "RESHARD", "REDUCE_GRAD"};
constexpr std::string_view kOverlap = "OVERLAP_F_B";
/// A pipeline has at most 65535 chunks and 2^24 microbatches.
constexpr std::uint32_t kMaxChunk = std::numeric_limits<Chunk>::max() - 1U;
constexpr std::uint32_t kMaxMicrobatch = (1U << 24) - 1;
/// Of a text that a message quotes.
constexpr std::size_t kLongestQuote = 40;
constexpr std::string_view kHexDigits = "0123456789abcdef";

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Takes the digits at the front of the text.
std::string_view take_digits(std::string_view& text) {
  const auto end =
      static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
  const std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  return digits;
}

/// False for more than the limit, or no digits at all.
bool to_number(std::string_view digits, std::uint32_t limit, std::uint32_t& number) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc{} && end == digits.data() + digits.size() && number <= limit;
}

std::string not_an_action(std::string_view text) {
  return quoted(text) + " is not an action such as 0F3, 1B2, 2I0, 2W0 or (0F3;1B2)OVERLAP_F_B";
}

/// @param computes whether only an action that computes will do
std::string parse_plain(std::string_view text, bool computes, std::vector<Action>& actions) {
  std::string_view rest = text;
  const std::string_view stage = take_digits(rest);
  std::string_view type = rest;
  while (!type.empty() && is_digit(type.back())) type.remove_suffix(1);
  const std::string_view number = rest.substr(type.size());
  const bool compute = type.size() == 1 && std::string_view("FBIW").find(type[0]) != std::string_view::npos;
  const bool left_out = std::find(kLeftOut.begin(), kLeftOut.end(), type) != kLeftOut.end();
  if (stage.empty() || !(compute || (left_out && !computes)) || (compute && number.empty()))
    return not_an_action(text);
  std::uint32_t chunk = 0;
  std::uint32_t microbatch = 0;
  if (!to_number(stage, kMaxChunk, chunk))
    return "the stage of " + quoted(text) + " is more than " + std::to_string(kMaxChunk);
  if (!number.empty() && !to_number(number, kMaxMicrobatch, microbatch))
    return "the microbatch of " + quoted(text) + " is more than " + std::to_string(kMaxMicrobatch);
  if (compute) actions.push_back({static_cast<ActionType>(type[0]), static_cast<Chunk>(chunk), microbatch});
  return {};
}

std::string parse_overlap(std::string_view text, std::vector<Action>& actions) {
  const std::size_t close = text.find(')');
  if (close == std::string_view::npos || text.substr(close + 1) != kOverlap) return not_an_action(text);
  std::string_view parts = text.substr(1, close - 1);
  for (;;) {
    const std::size_t end = std::min(parts.find(';'), parts.size());
    std::string reason = parse_plain(trimmed(parts.substr(0, end)), true, actions);
    if (!reason.empty()) return reason;
    if (end == parts.size()) return {};
    parts.remove_prefix(end + 1);
  }
}

}  // namespace

Task Action::task() const noexcept {
  switch (type) {
    case ActionType::Forward:
      return {microbatch, chunk, Pass::Forward};
    case ActionType::WeightGrad:
      return {microbatch, chunk, Pass::WeightGrad};
    default:
      return {microbatch, chunk, Pass::Backward};
  }
}

std::string to_string(const Action& action) {
  return std::to_string(action.chunk) + static_cast<char>(action.type) + std::to_string(action.microbatch);
}

std::string parse_cell(std::string_view cell, std::vector<Action>& actions) {
  std::string_view text = trimmed(cell);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
    text = trimmed(text.substr(1, text.size() - 2));
  if (text.empty()) return {};
  return text.front() == '(' ? parse_overlap(text, actions) : parse_plain(text, false, actions);
}

std::string quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text.substr(0, kLongestQuote)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      result += c;
    } else {
      result.append("\\x").append(1, kHexDigits[byte >> 4U]).append(1, kHexDigits[byte & 15U]);
    }
  }
  return result + (text.size() > kLongestQuote ? "...'" : "'");
}

}  // namespace sluice
