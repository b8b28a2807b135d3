package neutron

import (
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// longestTag is MAX_TAG_LEN of neutron's extensions/tagging.py.
const longestTag = 255

// tagOperations are the operations of the extension standard-attr-tag. A change of the tags is a
// change of the resource.
func (k *kind[T]) tagOperations() []operation {
	tags := networkPath + "/v2.0/" + k.path + "/{id}/tags"
	return []operation{
		k.serve("tag_replace", "PUT "+tags, k.tagged(k.replaceTags)),
		k.serve("tag_delete_all", "DELETE "+tags,
			k.tagged(func(_ *request, row *T) (answer, error) {
				return api.NoContent(), k.setTags(row, nil)
			})),
		k.serve("tag_get", "GET "+tags+"/{tag}", k.tagged(func(r *request, row *T) (answer, error) {
			return api.NoContent(), k.checkTag(row, r.PathValue("tag"))
		})),
		k.serve("tag_add", "PUT "+tags+"/{tag}", k.tagged(k.addTag)),
		k.serve("tag_delete", "DELETE "+tags+"/{tag}", k.tagged(k.deleteTag)),
	}
}

// tagged finds the resource of a request for tags.
func (k *kind[T]) tagged(handle func(*request, *T) (answer, error)) func(*request) (answer, error) {
	return func(r *request) (answer, error) {
		if !k.network.has("standard-attr-tag") {
			return answer{}, noSuchPath()
		}
		row, err := k.findFor(callerOf(r), r.PathValue("id"))
		if err == nil && r.Method != http.MethodGet {
			_, row, err = k.findToWrite(r)
		}
		if err != nil {
			return answer{}, neutronTagged(err, k.collection, r.PathValue("id"))
		}
		return handle(r, row)
	}
}

// neutronTagged is the error of a tag operation for a resource that does not exist.
func neutronTagged(err error, collection, id string) error {
	if known, is := err.(*api.RefusedError); is && known.Status == http.StatusNotFound {
		return neutronNotFound("TagResourceNotFound", "Resource %s %s could not be found.",
			collection, id)
	}
	return err
}

func (k *kind[T]) setTags(row *T, tags []string) error {
	return k.change(neutronItself(), row, func(changed *T) error {
		*k.standard(changed).tags = tags
		return nil
	})
}

func (k *kind[T]) checkTag(row *T, tag string) error {
	if slices.Contains(*k.standard(row).tags, tag) {
		return nil
	}
	return neutronNotFound("TagNotFound", "Tag %s could not be found.", tag)
}

func (k *kind[T]) replaceTags(r *request, row *T) (answer, error) {
	var given struct{ Tags []string }
	if err := r.Decode(&given); err != nil || given.Tags == nil {
		return answer{},
			neutronBadRequest("InvalidInput", "Invalid input for operation: Invalid tags body.")
	}
	for i, tag := range given.Tags {
		if slices.Contains(given.Tags[:i], tag) {
			return answer{},
				neutronBadRequest("InvalidInput",
					"Invalid input for operation: Duplicate items in the list: '%s'.", tag)
		}
		if err := checkLength(tag); err != nil {
			return answer{}, err
		}
	}
	if err := k.setTags(row, given.Tags); err != nil {
		return answer{}, err
	}
	return api.OK(object{"tags": given.Tags}), nil
}

func checkLength(tag string) error {
	if utf8.RuneCountInString(tag) > longestTag {
		return neutronBadRequest("InvalidInput",
			"Invalid input for operation: '%s' exceeds maximum length of %d.", tag, longestTag)
	}
	return nil
}

func (k *kind[T]) addTag(r *request, row *T) (answer, error) {
	tag := r.PathValue("tag")
	if err := checkLength(tag); err != nil {
		return answer{}, err
	}
	tags := *k.standard(row).tags
	if !slices.Contains(tags, tag) {
		tags = append(slices.Clip(tags), tag)
	}
	return answer{Status: http.StatusCreated}, k.setTags(row, tags)
}

func (k *kind[T]) deleteTag(r *request, row *T) (answer, error) {
	tag := r.PathValue("tag")
	if err := k.checkTag(row, tag); err != nil {
		return answer{}, err
	}
	kept := slices.DeleteFunc(slices.Clone(*k.standard(row).tags),
		func(other string) bool { return other == tag })
	return api.NoContent(), k.setTags(row, kept)
}
