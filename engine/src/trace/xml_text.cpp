#include "xml_text.hpp"

#include <nlohmann/json.hpp>

namespace sluice::trace {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";
constexpr std::string_view kEllipsis = "\xe2\x80\xa6";

std::string valid_utf8(std::string_view text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

/// U+FFFE and U+FFFF are UTF-8 and no XML.
bool is_noncharacter(std::string_view rest) {
  return rest.starts_with("\xef\xbf\xbe") || rest.starts_with("\xef\xbf\xbf");
}

void append_ascii(std::string& out, char c) {
  switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    default:
      if (static_cast<unsigned char>(c) < 0x20U) {
        out += c == '\t' || c == '\n' || c == '\r' ? std::string_view(" ") : kReplacement;
      } else {
        out += c;
      }
  }
}

}  // namespace

std::string xml_text(std::string_view text) {
  const std::string valid = valid_utf8(text);
  const std::string_view view = valid;
  std::string out;
  for (std::size_t i = 0; i < view.size(); ++i) {
    if (is_noncharacter(view.substr(i))) {
      out += kReplacement;
      i += kReplacement.size() - 1;
    } else {
      append_ascii(out, view[i]);
    }
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t limit) {
  std::string valid = valid_utf8(text);
  std::size_t characters = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < valid.size(); ++i) {
    if (!starts_character(valid[i])) continue;
    if (++characters == limit) last = i;
    if (characters > limit) return valid.substr(0, last).append(kEllipsis);
  }
  return valid;
}

}  // namespace sluice::trace
