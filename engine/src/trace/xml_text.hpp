#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::trace {

/// The text as character data or attribute value of an XML document. What XML cannot hold (control
/// characters, invalid UTF-8) becomes the replacement character.
[[nodiscard]] std::string xml_text(std::string_view text);

/// The text, or its first `limit` - 1 characters and an ellipsis if it is longer. Takes any bytes,
/// gives UTF-8.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t limit);

}  // namespace sluice::trace
