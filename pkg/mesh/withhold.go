package mesh

import (
	"bytes"
	"encoding/json"
	"slices"
)

// DeadWithheld is the header of a dead letter that names, with commas between
// them, the fields whose values are not kept: they are for their receiver only
// and no one else. Such a letter cannot be sent again as it is.
const DeadWithheld = "crumb-dead-withheld"

// withheldFields are the names of such fields, wherever they stand in a body.
func withheldFields() []string { return []string{"principalToken", "toolProviderContext"} }

// withhold replaces the values of fields that must not be kept by their names in
// brackets, and says which there were. What is no JSON object is kept as it is.
func withhold(body []byte) (kept []byte, fields []string) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var document map[string]any
	if dec.Decode(&document) != nil {
		return body, nil
	}
	fields = blank(document)
	if len(fields) == 0 {
		return body, nil
	}
	kept, err := json.Marshal(document)
	if err != nil { // what was decoded encodes
		return []byte(`{}`), fields
	}
	slices.Sort(fields)
	return kept, slices.Compact(fields)
}

func blank(v any) (fields []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if slices.Contains(withheldFields(), name) && value != nil {
				v[name] = "[" + name + "]"
				fields = append(fields, name)
				continue
			}
			fields = append(fields, blank(value)...)
		}
	case []any:
		for _, value := range v {
			fields = append(fields, blank(value)...)
		}
	}
	return fields
}
