"""The words in the hints of errors for training from the beginning again."""

ANEW = "begin anew in another folder, or with abreast run --checkpoint-reset"
